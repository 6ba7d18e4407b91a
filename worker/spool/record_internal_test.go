package spool

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestDecode_BitFlips(t *testing.T) {
	t.Parallel()
	file := record{seq: 7, key: "task", data: []byte("outcome")}.encode()
	for i := range len(file) * 8 {
		flipped := bytes.Clone(file)
		flipped[i/8] ^= 1 << (i % 8)
		if r, err := decode(flipped); !errors.Is(err, errTorn) {
			t.Errorf("decode with bit %d flipped = %+v, %v; want errTorn", i, r, err)
		}
	}
}

// TestOpen_OtherVersion: a file that is whole but of another version is no rubbish.
func TestOpen_OtherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := record{seq: 1, key: "a"}.encode()
	file[8] = version + 1
	file = sealed(file[:len(file)-sumBytes])
	if err := errors.Join(s.write(fileName("a"), file, false), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, errVersion) || !strings.Contains(err.Error(), "let that version run") {
		t.Fatalf("Open = %v, want errVersion with what to do", err)
	}
}

// sealed gives body a checksum that is right.
func sealed(body []byte) []byte {
	body = bytes.Clone(body)
	sum := checksum(body)
	return append(body, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// FuzzDecode feeds the decoder b as it is, with a checksum that is right, and as a record that is cut or has a bit
// flipped.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil), uint16(0))
	f.Add([]byte(magic), uint16(3))
	f.Add(record{seq: 1 << 63, key: "key", data: []byte("data")}.encode(), uint16(100))
	f.Add(record{}.encode(), uint16(7))
	f.Add(append([]byte(magic+"\x01\x00\x00\x0012345678"), bytes.Repeat([]byte{0xff}, 40)...), uint16(9))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		for _, file := range [][]byte{b, sealed(b)} {
			if r, err := decode(file); err == nil && !bytes.Equal(r.encode(), file) {
				t.Errorf("decode(%q) = %+v, which encodes to %q", file, r, r.encode())
			}
		}
		cut := int(at) % (len(b) + 1)
		want := record{seq: uint64(at), key: string(b[:cut]), data: b[cut:]}
		file := want.encode()
		got, err := decode(file)
		if err != nil || got.seq != want.seq || got.key != want.key || !bytes.Equal(got.data, want.data) {
			t.Errorf("decode(encode(%+v)) = %+v, %v", want, got, err)
		}
		if _, err := decode(file[:int(at)%len(file)]); !errors.Is(err, errTorn) {
			t.Errorf("decode of a record cut at %d = %v, want errTorn", int(at)%len(file), err)
		}
		file[int(at)%len(file)] ^= 1 << (at % 8)
		if _, err := decode(file); !errors.Is(err, errTorn) {
			t.Errorf("decode of a record with a bit flipped = %v, want errTorn", err)
		}
	})
}
