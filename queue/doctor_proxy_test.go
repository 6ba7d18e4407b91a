package queue_test

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
)

// proxy stands between Redis and the test and changes what Redis says. It gives the URL.
func proxy(t *testing.T, s *redistest.Server, change func([]byte) []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", s.Addr)
			if err != nil {
				down.Close()
				return
			}
			wg.Go(func() { io.Copy(up, down); up.Close() })
			wg.Go(func() {
				defer down.Close()
				buf := make([]byte, 1<<20)
				for {
					n, err := up.Read(buf)
					if err != nil {
						return
					}
					down.Write(change(buf[:n]))
				}
			})
		}
	})
	return "redis://" + l.Addr().String()
}

func TestDoctor_Version(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	installed := s.Client(t).InfoMap(t.Context(), "server").Val()["Server"]["redis_version"]
	for version, level := range map[string]queue.Level{"7.4.1": queue.OK, "10.0.0": queue.OK, "6.2.14": queue.Warn, "6.0.9": queue.Fail, "5.0.1": queue.Fail} {
		// The reply has a length in front: what the version is longer or shorter goes to the line after it.
		url := proxy(t, s, func(b []byte) []byte {
			said := []byte("redis_version:" + installed + "\r\nredis_git_sha1:00000000")
			lie := []byte("redis_version:" + version + "\r\nredis_git_sha1:")
			for len(lie) < len(said) {
				lie = append(lie, '0')
			}
			return bytes.ReplaceAll(b, said, lie)
		})
		finds(t, doctor(t, url, queue.DoctorOptions{}), level, "version", "Redis "+version)
	}
}

func TestDoctor_Clock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	stamp := regexp.MustCompile(`\*2\r\n\$10\r\n(\d{10})`)
	for seconds, words := range map[int]string{100: "ahead of", -100: "behind"} {
		url := proxy(t, s, func(b []byte) []byte {
			return stamp.ReplaceAllFunc(b, func(m []byte) []byte {
				n, _ := strconv.Atoi(string(m[len(m)-10:]))
				return strconv.AppendInt(m[:len(m)-10:len(m)-10], int64(n+seconds), 10)
			})
		})
		finds(t, doctor(t, url, queue.DoctorOptions{}), queue.Warn, "clock", words, "NTP")
	}
}

func TestDoctor_Latency(t *testing.T) {
	t.Parallel()
	url := proxy(t, redistest.Start(t), func(b []byte) []byte { time.Sleep(12 * time.Millisecond); return b })
	finds(t, doctor(t, url, queue.DoctorOptions{}), queue.Warn, "latency", "median of 20 round trips", "closer together")
}
