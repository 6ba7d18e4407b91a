package embedded_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"offstage/internal/embedded"
)

func start(t *testing.T) (*embedded.Server, *redis.Client) {
	t.Helper()
	s, err := embedded.Start()
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(s.Close)
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatalf("ParseURL: %v", err)
	}
	opts.ContextTimeoutEnabled = true
	c := redis.NewClient(opts)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return s, c
}

func TestServer_Expires(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	ctx := t.Context()
	if err := c.Set(ctx, "long", "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "short", "v", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for {
		n, err := c.Exists(ctx, "short").Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("a key with a TTL of 300ms is there after 10s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if gone := time.Since(began); gone < 150*time.Millisecond {
		t.Errorf("a key with a TTL of 300ms was gone after %v", gone)
	}
	if ttl := c.PTTL(ctx, "long").Val(); ttl > time.Hour-100*time.Millisecond || ttl < 59*time.Minute {
		t.Errorf("PTTL of a key with an hour = %v, want a little less", ttl)
	}
}

func TestServer_Loopback(t *testing.T) {
	t.Parallel()
	s, _ := start(t)
	host, _, err := net.SplitHostPort(s.Addr())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("Addr() = %q, want a port of 127.0.0.1", s.Addr())
	}
}

// Another user of the machine can reach the port; without the password nothing that reads, writes or runs works.
func TestServer_NeedsPassword(t *testing.T) {
	t.Parallel()
	s, _ := start(t)
	for _, password := range []string{"", "wrong"} {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: password, Protocol: 2, MaxRetries: -1})
		for _, cmd := range []string{
			"GET k", "SET k v", "KEYS *", "DEL k", "FLUSHALL", "EVAL return(1) 0", "EVALSHA abc 0", "SCRIPT LOAD return(1)",
			"SUBSCRIBE ch", "PSUBSCRIBE *", "PUBLISH ch m", "MULTI", "XADD s * k v", "HGETALL h", "SCAN 0", "INFO", "PING",
		} {
			args := []any{}
			for f := range strings.FieldsSeq(cmd) {
				args = append(args, f)
			}
			if err := c.Do(t.Context(), args...).Err(); err == nil {
				t.Errorf("%s with password %q is answered", cmd, password)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	}
}

func TestServer_PasswordsDiffer(t *testing.T) {
	t.Parallel()
	a, _ := start(t)
	b, _ := start(t)
	password := func(url string) string {
		before, _, _ := strings.Cut(url, "@")
		return before
	}
	if password(a.URL()) == password(b.URL()) {
		t.Error("two servers have the same password")
	}
}

// Waiting on the pending list itself is how workers idle: BLMOVE of a list onto itself answers when there is work and
// changes nothing.
func TestServer_WaitsOnList(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	ctx := t.Context()
	got := make(chan error, 1)
	go func() {
		v, err := c.BLMove(ctx, "l", "l", "RIGHT", "RIGHT", 30*time.Second).Result()
		if err == nil && v != "first" {
			err = errors.New("BLMOVE = " + v + ", want first")
		}
		got <- err
	}()
	if err := c.Eval(ctx, "return redis.call('LPUSH', KEYS[1], 'first', 'second')", []string{"l"}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if l := c.LRange(ctx, "l", 0, -1).Val(); strings.Join(l, " ") != "second first" {
		t.Errorf("the list is %v after waiting on it, want [second first]", l)
	}
	if err := c.BLMove(ctx, "none", "none", "RIGHT", "RIGHT", time.Second).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("BLMOVE of an empty list = %v, want %v after a second", err, redis.Nil)
	}
}

func TestServer_Publish(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	ctx := t.Context()
	sub := c.Subscribe(ctx, "ch")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Eval(ctx, "return redis.call('PUBLISH', 'ch', 'hello')", nil).Err(); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "hello" {
		t.Errorf("received %v, %v, want hello", m, err)
	}
}

// Close must not wait for clients that wait themselves.
func TestServer_Close(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- c.BLMove(ctx, "l", "l", "RIGHT", "RIGHT", 0).Err() }()
	time.Sleep(50 * time.Millisecond)
	s.Close()
	s.Close()
	if err := <-got; err == nil {
		t.Error("a command that waited was answered by a closed server")
	}
	if ctx.Err() != nil {
		t.Error("a waiting client held Close up")
	}
	if !strings.HasPrefix(s.URL(), "redis://:") {
		t.Errorf("URL() after Close = %q", s.URL())
	}
}
