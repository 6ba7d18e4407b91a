package httpcall_test

import (
	"context"
	"encoding/binary"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "httpcall")
	if err != nil {
		panic(err)
	}
	if err := trustTestServers(dir); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// trustTestServers makes the certificate of httptest's servers one of the system's roots, for this process.
func trustTestServers(dir string) error {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file := filepath.Join(dir, "root.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_FILE", file)
}

// resolver answers every question for an IPv4 address with answer(n), n counting the questions, and knows no IPv6
// addresses.
func resolver(t *testing.T, answer func(n int64) netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var questions atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buf[:n], func() netip.Addr { return answer(questions.Add(1)) }), from)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply builds a DNS message (RFC 1035) with one A record, or none for other questions.
func reply(query []byte, answer func() netip.Addr) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root label, type and class
	msg := append([]byte{}, query[:end]...)
	binary.BigEndian.PutUint16(msg[2:], 0x8180)
	clear(msg[6:12])
	if binary.BigEndian.Uint16(msg[end-4:]) != 1 {
		return msg
	}
	msg[7] = 1
	ip := answer().As4()
	msg = append(msg, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(msg, ip[:]...)
}
