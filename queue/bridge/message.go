package bridge

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"offstage/tasks"
)

// The field numbers of asynq's TaskMessage (its internal/proto/asynq.proto), which asynq does not export.
// TestMessage compares with what asynq writes.
const (
	fieldType         = 1
	fieldPayload      = 2
	fieldRetry        = 5
	fieldRetried      = 6
	fieldErrorMsg     = 7
	fieldTimeout      = 8
	fieldDeadline     = 9
	fieldLastFailedAt = 11
	fieldRetention    = 12
	fieldCompletedAt  = 13
	fieldHeaders      = 15
)

// message is what we read of asynq's TaskMessage.
type message struct {
	typ       string
	payload   []byte
	headers   map[string]string
	retry     int
	timeout   time.Duration
	deadline  time.Time
	retention time.Duration
}

var errMessage = errors.New("asynq message cannot be decoded")

// parseMessage reads asynq's encoding. The last value of a field counts.
func parseMessage(b []byte) (message, error) {
	m := message{headers: map[string]string{}}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, errMessage
		}
		b = b[n:]
		if n = m.field(num, typ, b); n < 0 {
			return m, errMessage
		}
		b = b[n:]
	}
	return m, nil
}

// field reads one field's value from the front of b and returns its length, negative when malformed.
func (m *message) field(num protowire.Number, typ protowire.Type, b []byte) int {
	switch typ {
	case protowire.BytesType:
		v, n := protowire.ConsumeBytes(b)
		switch {
		case n < 0:
		case num == fieldType:
			m.typ = string(v)
		case num == fieldPayload:
			m.payload = v
		case num == fieldHeaders:
			return min(n, m.header(v))
		}
		return n
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(b)
		if n >= 0 {
			m.number(num, int64(v))
		}
		return n
	}
	return protowire.ConsumeFieldValue(num, typ, b)
}

func (m *message) number(num protowire.Number, v int64) {
	switch num {
	case fieldRetry:
		m.retry = int(v)
	case fieldTimeout:
		m.timeout = time.Duration(v) * time.Second
	case fieldDeadline:
		if v > 0 {
			m.deadline = time.Unix(v, 0)
		}
	case fieldRetention:
		m.retention = time.Duration(v) * time.Second
	}
}

// header reads one entry of the headers map; it returns a negative number when the entry is malformed.
func (m *message) header(b []byte) int {
	var kv [3]string
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.BytesType || num > 2 {
			return -1
		}
		v, k := protowire.ConsumeBytes(b[n:])
		if k < 0 {
			return -1
		}
		kv[num] = string(v)
		b = b[n+k:]
	}
	m.headers[kv[1]] = kv[2]
	return int(^uint(0) >> 1)
}

// overlay collects fields to put behind an encoded message, where they override what it says.
type overlay []byte

func (o overlay) number(num protowire.Number, v int64) overlay {
	return protowire.AppendVarint(protowire.AppendTag(o, num, protowire.VarintType), uint64(v))
}

func (o overlay) text(num protowire.Number, s string) overlay {
	return protowire.AppendString(protowire.AppendTag(o, num, protowire.BytesType), s)
}

// failedOverlay shows a failed or cancelled attempt in asynq's tools.
func failedOverlay(retried int, msg string, at time.Time) []byte {
	o := overlay{}.number(fieldRetried, int64(retried))
	return o.text(fieldErrorMsg, tasks.CleanMessage(msg)).number(fieldLastFailedAt, at.Unix())
}

// completedOverlay shows a completed task in asynq's tools.
func completedOverlay(retried int, at time.Time) []byte {
	return overlay{}.number(fieldRetried, int64(retried)).number(fieldCompletedAt, at.Unix())
}

// unhurried takes the time limits out of a message for asynq's own eyes: limits are ours to enforce, and asynq would
// let go of a body that still runs. shown is the limit that asynq's tools display; zero shows ten years.
func unhurried(msg []byte, shown time.Duration) []byte {
	if shown <= 0 {
		shown = 10 * 365 * 24 * time.Hour
	}
	o := overlay{}.number(fieldTimeout, int64(shown.Seconds())+1).number(fieldDeadline, 0)
	return append(slices.Clip(msg), o...)
}
