package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/config"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "1": 1, "4096": 4096, "512B": 512, "1KiB": 1024, "64KiB": 65536, "1MiB": 1 << 20, "2GiB": 2 << 30, "1kB": 1000, "5MB": 5e6,
		"1GB": 1e9, "1mib": 1 << 20, "1 MiB": 1 << 20, "8589934591GiB": 8589934591 << 30,
	} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "MiB", "-1", "+1", "1.5MiB", "1M", "1Mi", "1TiB", "0x10", "1_000", "MiB1", "1MiB2",
		"8589934592GiB", "9223372036854775808", "99999999999999999999", "1\x00"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1MiB", "64KiB", "12", "9GB", "-1", "1 b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := config.ParseSize(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseSize(%q) = %d", text, n)
		}
		again, err := config.ParseSize(config.FormatSize(n))
		if err != nil || again != n {
			t.Errorf("ParseSize(FormatSize(%d)) = %d, %v", n, again, err)
		}
	})
}

func TestParseQueues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]int{
		"default":                {"default": 1},
		"default=3,low=1":        {"default": 3, "low": 1},
		" a = 2 , b ":            nil,
		"a= 2, b":                {"a": 2, "b": 1},
		"":                       nil,
		",":                      nil,
		"a,":                     nil,
		"a=":                     nil,
		"a=x":                    nil,
		"a=1,a=2":                nil,
		"a b=1":                  nil,
		"a{b}=1":                 nil,
		"=1":                     nil,
		"a=1=2":                  nil,
		"a=99999999999999999999": nil,
		"Mail=1,mail=2":          {"Mail": 1, "mail": 2},
	} {
		got, err := config.ParseQueues(text)
		if d := cmp.Diff(want, got); d != "" || (err == nil) != (want != nil) {
			t.Errorf("ParseQueues(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzParseQueues(f *testing.F) {
	for _, s := range []string{"default", "a=1,b=2", "a=,", "=,=", "a=-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		queues, err := config.ParseQueues(text)
		if err != nil {
			return
		}
		again, err := config.ParseQueues(config.FormatQueues(queues))
		if d := cmp.Diff(queues, again); err != nil || d != "" {
			t.Errorf("ParseQueues(FormatQueues(%v)) = %v, %v", queues, again, err)
		}
	})
}
