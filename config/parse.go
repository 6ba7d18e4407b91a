package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

// ParseSize reads a number of bytes: plain ("512", "512B") or with a binary (KiB, MiB, GiB) or decimal (kB, MB, GB)
// unit, in any case. No sign, no fraction.
func ParseSize(text string) (int, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit, ok := sizeUnit(strings.TrimLeft(text[len(digits):], " "))
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !ok || n > uint64(math.MaxInt/unit) {
		return 0, &valueError{quote(text) + " is not a size", `write it like "1MiB", "64KiB" or "4096"`}
	}
	return int(n) * unit, nil
}

func sizeUnit(name string) (int, bool) {
	switch strings.ToLower(name) {
	case "", "b":
		return 1, true
	case "kib":
		return 1 << 10, true
	case "mib":
		return 1 << 20, true
	case "gib":
		return 1 << 30, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	}
	return 1, false
}

// FormatSize writes n in the largest binary unit that loses nothing. ParseSize reads it back.
func FormatSize(n int) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		size := 1 << (30 - 10*i)
		if n >= size && n%size == 0 {
			return strconv.Itoa(n/size) + unit
		}
	}
	return strconv.Itoa(n)
}

// ParseQueues reads queues and weights, "default=3,low=1". A queue without a weight has weight 1.
func ParseQueues(text string) (map[string]int, error) {
	queues := map[string]int{}
	for item := range strings.SplitSeq(text, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(item), "=")
		n := 1
		if weighted {
			var err error
			if n, err = parseWeight(name, weight); err != nil {
				return nil, err
			}
		}
		if err := addQueue(queues, name, n); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

// FormatQueues writes queues the way ParseQueues reads them, sorted by name.
func FormatQueues(queues map[string]int) string {
	items := make([]string, 0, len(queues))
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		items = append(items, name+"="+strconv.Itoa(queues[name]))
	}
	return strings.Join(items, ",")
}

func parseWeight(queue, text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, &valueError{fmt.Sprintf("weight %s of queue %s is not a whole number", quote(text), quote(queue)), `write queues like "default=3,low=1"`}
	}
	return n, nil
}

func addQueue(queues map[string]int, name string, weight int) error {
	if err := tasks.ValidateQueue(name); err != nil {
		return &valueError{quote(name) + " cannot name a queue", "use 1 to 64 letters, digits, '-' and '_', starting with a letter or digit"}
	}
	if _, twice := queues[name]; twice {
		return &valueError{"queue " + quote(name) + " is given twice", "give each queue one weight"}
	}
	queues[name] = weight
	return nil
}

// The functions below take what a file's parser gives, or the text of a flag or variable.

func parseQueues(v any) (map[string]int, error) {
	switch v := v.(type) {
	case string:
		return ParseQueues(v)
	case map[string]any:
		queues := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n, err := parseInt(v[name])
			if err != nil {
				return nil, &valueError{"the weight of queue " + quote(name) + " is not a whole number", "give each queue a weight from 1 to 1000"}
			}
			if err := addQueue(queues, name, n); err != nil {
				return nil, err
			}
		}
		return queues, nil
	}
	return nil, &valueError{"is " + kind(v), `write it as "default=3,low=1", or as a map of names to weights`}
}

func parseText(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	return "", &valueError{"is " + kind(v) + ", not a text", "put it in quotes"}
}

func parseBool(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b, nil
		}
		return false, &valueError{quote(v) + " is neither true nor false", "write true or false"}
	}
	return false, &valueError{"is " + kind(v) + ", not true or false", "write true or false"}
}

// parseSwitch is parseBool with a third state: empty, "auto" or null in a file leaves it to the daemon.
func parseSwitch(v any) (*bool, error) {
	if v == nil || v == "auto" {
		return nil, nil
	}
	b, err := parseBool(v)
	if err != nil {
		return nil, reworded(err, "write true, false or auto")
	}
	return &b, nil
}

func parseInt(v any) (int, error) {
	const hint = "write a whole number"
	switch v := v.(type) {
	case int:
		return v, nil
	case int64:
		return int(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
		return 0, &valueError{strconv.FormatFloat(v, 'g', -1, 64) + " is not a whole number", hint}
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil {
			return 0, &valueError{quote(v) + " is not a whole number", hint}
		}
		return n, nil
	}
	return 0, &valueError{"is " + kind(v) + ", not a number", hint}
}

func parseSize(v any) (int, error) {
	if s, ok := v.(string); ok {
		return ParseSize(strings.TrimSpace(s))
	}
	n, err := parseInt(v)
	if err != nil {
		return 0, reworded(err, `write it like "1MiB", "64KiB" or "4096"`)
	}
	return n, nil
}

func parseDuration(v any) (time.Duration, error) {
	const hint = `write it with a unit, like "500ms", "30s" or "1h30m"`
	s, ok := v.(string)
	if !ok {
		if n, err := parseInt(v); err == nil && n == 0 {
			return 0, nil
		} else if err == nil {
			return 0, &valueError{strconv.Itoa(n) + " has no unit", hint}
		}
		return 0, &valueError{"is " + kind(v) + ", not a duration", hint}
	}
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return 0, &valueError{quote(s) + " is not a duration", hint}
	}
	return d, nil
}

// parseList reads a list of texts; in one text they stand between commas. An empty text is an empty list.
func parseList(v any) ([]string, error) {
	var items []any
	switch v := v.(type) {
	case string:
		for item := range strings.SplitSeq(v, ",") {
			items = append(items, item)
		}
		if strings.TrimSpace(v) == "" {
			items = nil
		}
	case []any:
		items = v
	default:
		return nil, &valueError{"is " + kind(v) + ", not a list", `write it as "a,b" or as a list`}
	}
	var list []string
	for _, item := range items {
		s, ok := item.(string)
		if s = strings.TrimSpace(s); !ok || s == "" {
			return nil, &valueError{"has an item that is empty or not a text", "put each item in quotes"}
		}
		list = append(list, s)
	}
	return list, nil
}

func parseEnv(v any) ([]EnvVar, error) {
	list, err := parseList(v)
	if err != nil {
		return nil, err
	}
	var vars []EnvVar
	for _, item := range list {
		name, value, own := strings.Cut(item, "=")
		if name == "" || strings.ContainsAny(name, " \t\x00") {
			return nil, &valueError{"has an item without a name before the '='", `write items like "PATH" (the daemon's value) or "LANG=C"`}
		}
		e := EnvVar{Name: name}
		if own {
			e.Value = new(NewSecret(value))
		}
		vars = append(vars, e)
	}
	return vars, nil
}

func parseRedisURL(v any) (RedisURL, error) {
	s, err := parseText(v)
	if err != nil {
		return RedisURL{}, err
	}
	return NewRedisURL(strings.TrimSpace(s)), nil
}

// parseSecret keeps a secret as it is, spaces included.
func parseSecret(v any) (Secret, error) {
	s, err := parseText(v)
	switch {
	case err != nil:
		return Secret{}, err
	case s == "":
		return Secret{}, &valueError{"is empty", "give it a value, or take it out"}
	case strings.Contains(s, mask):
		return Secret{}, &valueError{"is the mask of a printed configuration, not a secret", "put the secret in its place"}
	}
	return NewSecret(s), nil
}

func parseTime(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC(), nil
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &valueError{"is not a time", `write it like "2026-12-31T23:59:59Z"`}
}

// decodeList reads a JSON list of objects out of a flag, a variable or a secret's file.
func decodeList(text string) ([]any, error) {
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, &valueError{"is not a JSON list", `write it like [{"name": "ci", "sha256": "…", "scopes": ["read"], "owners": ["*"]}]`}
	}
	return list, nil
}

// quote shows a value in a fault, cut so that a fault stays readable.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return strconv.Quote(text)
}

// kind names a value's shape for people who write configuration, not Go.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int, int64, uint64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "a time or date"
}
