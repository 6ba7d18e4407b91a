package spool

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// A file of the spool, numbers in little endian:
//
//	 0  magic "OFFSPOOL"
//	 8  version, 4 bytes
//	12  sequence, 8 bytes: the order of the Puts
//	20  length of the key, 4 bytes
//	24  length of the data, 4 bytes
//	28  key, data
//	    CRC-32C of all before it, 4 bytes
//
// Every version keeps the magic, the place of the version and the sum at the end.
const (
	magic       = "OFFSPOOL"
	version     = 1
	headerBytes = 28
	sumBytes    = 4
)

const (
	recordSuffix = ".rec"
	tempSuffix   = ".tmp"
)

var (
	errTorn    = errors.New("torn")
	errForeign = errors.New("not a file of the spool")
	errVersion = errors.New("written by another version of offstage")
)

// record is what one file holds.
type record struct {
	seq  uint64
	key  string
	data []byte
}

// fileBytes is the length of the file of a record.
func fileBytes(key string, data []byte) int64 {
	return headerBytes + int64(len(key)) + int64(len(data)) + sumBytes
}

// encode returns the file of r. Key and data are within their limits, so that their lengths fit.
func (r record) encode() []byte {
	b := make([]byte, 0, fileBytes(r.key, r.data))
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.data)))
	b = append(b, r.key...)
	b = append(b, r.data...)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// decode reads a file. The data of the record is a part of b. The error is errTorn, or errVersion for a file that is
// whole but of another version.
func decode(b []byte) (record, error) {
	if len(b) < headerBytes+sumBytes {
		return record{}, fmt.Errorf("%w: only %d bytes", errTorn, len(b))
	}
	if string(b[:len(magic)]) != magic {
		return record{}, fmt.Errorf("%w: it begins with %q", errTorn, b[:len(magic)])
	}
	body, sum := b[:len(b)-sumBytes], binary.LittleEndian.Uint32(b[len(b)-sumBytes:])
	if checksum(body) != sum {
		return record{}, fmt.Errorf("%w: the checksum is wrong", errTorn)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return record{}, fmt.Errorf("%w: %d, want %d", errVersion, v, version)
	}
	key, data := uint64(binary.LittleEndian.Uint32(b[20:])), uint64(binary.LittleEndian.Uint32(b[24:]))
	if key+data != uint64(len(body)-headerBytes) {
		return record{}, fmt.Errorf("%w: %d bytes for a key of %d and data of %d", errTorn, len(b), key, data)
	}
	body = body[headerBytes:]
	return record{seq: binary.LittleEndian.Uint64(b[12:]), key: string(body[:key]), data: body[key:]}, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// fileName is the name of the file of a key. Keys are text from outside: nothing of one gets into a path.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + recordSuffix
}

func isRecordName(name string) bool {
	digits, ok := strings.CutSuffix(name, recordSuffix)
	return ok && isHex(digits, 2*sha256.Size)
}

// tempName is the name of an unfinished write.
func tempName(seq uint64) string { return fmt.Sprintf("%016x", seq) + tempSuffix }

func isTempName(name string) bool {
	digits, ok := strings.CutSuffix(name, tempSuffix)
	return ok && (isHex(digits, 16) || name == probeName)
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
