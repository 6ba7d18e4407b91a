package exec

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"offstage/tasks"
)

const (
	chunkBytes   = 32 << 10
	keptBytes    = 8 << 10 // end of stderr kept for the error message
	messageLines = 3
	messageRunes = 500
)

// sink serialises the writes of two streams. After the first error of out it drops what follows: a command must not
// stall, nor fail, because nobody takes its output.
type sink struct {
	mu     sync.Mutex
	out    io.Writer
	broken bool
}

func (s *sink) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken || len(b) == 0 {
		return
	}
	_, err := s.out.Write(b)
	s.broken = err != nil
}

// stream carries one pipe of the command to the sink in whole runes.
type stream struct {
	sink *sink
	last []byte // the end of what was read, at most 2*keptBytes
}

// copy reads r to its end. Bytes that are not UTF-8 become U+FFFD.
func (s *stream) copy(r io.Reader) {
	buf := make([]byte, chunkBytes)
	held := 0 // bytes of an unfinished rune at the front of buf
	for {
		n, err := r.Read(buf[held:])
		data := buf[:held+n]
		whole := len(data) - unfinished(data)
		if err != nil {
			whole = len(data)
		}
		s.pass(data[:whole])
		held = copy(buf, data[whole:])
		if err != nil {
			return
		}
	}
}

func (s *stream) pass(b []byte) {
	if !utf8.Valid(b) {
		b = replaceInvalid(b)
	}
	s.sink.write(b)
	s.last = append(s.last, b[max(0, len(b)-keptBytes):]...)
	if len(s.last) > 2*keptBytes {
		s.last = append(s.last[:0], s.last[len(s.last)-keptBytes:]...)
	}
}

// replaceInvalid puts U+FFFD for each byte that is not UTF-8. (bytes.ToValidUTF8 puts one for a run of them, so that
// the output would depend on how it was cut into reads.)
func replaceInvalid(b []byte) []byte {
	text := make([]byte, 0, 2*len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		text = utf8.AppendRune(text, r)
		b = b[size:]
	}
	return text
}

// unfinished is the number of bytes at the end of b that begin a rune and could still become one.
func unfinished(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// lastLines is the end of the stream, brief and readable, for an error message.
func (s *stream) lastLines() string {
	var lines []string
	for line := range strings.Lines(tasks.PlainText(string(s.last))) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-messageLines):], "\n")
	if runes := []rune(text); len(runes) > messageRunes {
		text = "…" + string(runes[len(runes)-messageRunes+1:])
	}
	return text
}
