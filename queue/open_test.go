package queue_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/tasks"
)

// works sends a task there and back.
func works(t *testing.T, q *queue.Queue) {
	t.Helper()
	id := enqueue(t, q, named("n")).ID
	cancel(t, q, id)
	if got := get(t, q, id); got.Status != tasks.Cancelled {
		t.Errorf("the task is %s", got.Status)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		url := server.FreshDB(t)
		q, _ := open(t, url)
		works(t, q)
		if n := redistest.Connect(t, url).DBSize(t.Context()).Val(); n == 0 {
			t.Error("the database in the URL is empty, so another one was used")
		}
	})
	t.Run("Password", func(t *testing.T) {
		t.Parallel()
		own := redistest.Start(t, redistest.Password("p@ss/w:rd%"))
		q, _ := open(t, own.URLDB(3))
		works(t, q)
		_, err := queue.Open(t.Context(), "redis://:secret-guess@"+own.Addr, queue.Options{})
		if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "redis.url") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open with a wrong password: %v", err)
		}
	})
	t.Run("Unix", func(t *testing.T) {
		t.Parallel()
		own := redistest.Start(t, redistest.UnixSocket(), redistest.Password("p:w"))
		q, _ := open(t, own.SocketURL(5))
		works(t, q)
	})
	t.Run("Away", func(t *testing.T) {
		t.Parallel()
		own := redistest.Start(t)
		own.Stop()
		for _, url := range []string{"redis://:secret@" + own.Addr, "redis-cluster://:secret@" + own.Addr, "redis-sentinel://:secret@" + own.Addr + "/master"} {
			ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
			q, err := queue.Open(ctx, url, queue.Options{})
			stop()
			if !errors.Is(err, tasks.ErrUnavailable) || q != nil || !strings.Contains(err.Error(), own.Addr) ||
				!strings.Contains(err.Error(), "redis.url") || strings.Contains(err.Error(), "secret") {
				t.Errorf("Open(%s) = %v, want ErrUnavailable that names address and setting", strings.Replace(url, "secret", "...", 1), err)
			}
		}
	})
}

// TestOpen_Bad: a URL that cannot be read is an error that names the setting and never tells the password.
func TestOpen_Bad(t *testing.T) {
	t.Parallel()
	const pw = "hunter2"
	bad := map[string]string{
		"Empty": "", "NoScheme": "127.0.0.1:6379", "HostOnly": "localhost", "Scheme": "http://:" + pw + "@h:1", "SchemeCase": "postgres://u:" + pw + "@h/db",
		"Port": "redis://:" + pw + "@h:port", "DB": "redis://:" + pw + "@h:1/x", "Path": "redis://:" + pw + "@h:1/0/1", "Option": "redis://:" + pw + "@h:1/0?nope=1",
		"BadOption": "redis://:" + pw + "@h:1/0?pool_size=x", "Quote": "redis://:\"" + pw + "@h:port", "Control": "redis://:" + pw + "\x01@h", "Escape": "redis://:%zz" + pw + "@h",
		"Slash": "redis://:" + pw + "/x@h:1", "SlashDigits": "redis://:12/" + pw + "@h:1", "Hash": "redis://:" + pw + "#x@h", "Question": "redis://:" + pw + "?x@h:1",
		"TLSPort": "rediss://:" + pw + "@h:port", "UnixNoPath": "unix://:" + pw + "@", "UnixDB": "unix://:" + pw + "@/s?db=" + "x",
		"SentinelNoMaster": "redis-sentinel://:" + pw + "@h:1", "SentinelNoHost": "redis-sentinel://:" + pw + "@/m", "SentinelDB": "redis-sentinel://:" + pw + "@h/m?db=x",
		"SentinelUser": "redis-sentinel://" + pw + "@h/m", "SentinelEscape": "redis-sentinel://:%zz" + pw + "@h/m", "SentinelComma": "redis-sentinel://:" + pw + "@h,/m",
		"SentinelSlash": "redis-sentinel://:" + pw + "/x@h/m", "SentinelQuestion": "redis-sentinel://:" + pw + "?x@h/m", "SentinelOption": "redis-sentinel://:" + pw + "@h/m?nope=1",
		"ClusterPath": "redis-cluster://:" + pw + "@h/1", "ClusterQuery": "redis-cluster://:" + pw + "@h?db=1", "ClusterNoHost": "redis-cluster://:" + pw + "@",
		"ClusterSlash": "redis-cluster://:" + pw + "/x@h:1", "ClusterPort": "redis-cluster://:" + pw + "@h:port",
	}
	for name, url := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			q, err := queue.Open(ctx, url, queue.Options{})
			if err == nil {
				_ = q.Close()
				t.Fatalf("Open(%q) took it", url)
			}
			if errors.Is(err, tasks.ErrUnavailable) || !errors.Is(err, tasks.ErrInvalid) {
				t.Errorf("Open = %v, want ErrInvalid: nothing there to connect to", err)
			}
			if !strings.Contains(err.Error(), "redis.url") || strings.Contains(err.Error(), pw) {
				t.Errorf("Open = %v, want it to name redis.url and no password", err)
			}
		})
	}
}

// TestOpen_TLS: rediss checks the server's certificate, unless told not to.
func TestOpen_TLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := selfSigned(t)
	port := freePort(t)
	redistest.Start(t, redistest.Args("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"))
	addr := net.JoinHostPort("127.0.0.1", port)
	if _, err := queue.Open(t.Context(), "rediss://"+addr, queue.Options{}); !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Open with a certificate nobody vouches for: %v", err)
	}
	q, _ := open(t, "rediss://"+addr+"/2?skip_verify=true")
	works(t, q)
	client := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	t.Cleanup(func() { _ = client.Close() })
	q, err := queue.New(client, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	works(t, q)
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestNew: a client that is handed in stays the caller's.
func TestNew(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, server.FreshDB(t))
	q, err := queue.New(client, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	works(t, q)
	for range 2 {
		if err := q.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client after Close: %v", err)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	if _, err := queue.New(ring, queue.Options{}); err == nil || !strings.Contains(err.Error(), "*redis.Ring") {
		t.Errorf("New with a Ring: %v", err)
	}
}
