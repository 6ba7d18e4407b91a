package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Print writes c as YAML. Each value is followed by where it came from, as a comment, when sources (from [Explain])
// knows it; sources may be nil. Secrets are masked and hashes of tokens cut short; without any of them, the output is
// a configuration file that gives c again.
func (c Config) Print(w io.Writer, sources Sources) error {
	p := &printer{sources: sources}
	all := settings()
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks.Secrets)) {
		all = append(all, webhookSecret(name))
	}
	slices.SortStableFunc(all, bySection(all))
	for _, s := range all {
		p.setting(s.key, s.show(&c))
	}
	_, err := io.WriteString(w, p.out.String())
	return err
}

// bySection keeps the settings of one section together, in the order in which the sections begin.
func bySection(all []setting) func(a, b setting) int {
	first := map[string]int{}
	for i, s := range all {
		section, _, _ := strings.Cut(s.key, ".")
		if _, ok := first[section]; !ok {
			first[section] = i
		}
	}
	return func(a, b setting) int {
		as, _, _ := strings.Cut(a.key, ".")
		bs, _, _ := strings.Cut(b.key, ".")
		return first[as] - first[bs]
	}
}

type printer struct {
	out     strings.Builder
	sources Sources
	open    []string // the sections that have been opened
}

// setting writes one key below the sections that its dots name.
func (p *printer) setting(key string, v any) {
	path := strings.Split(key, ".")
	sections, name := path[:len(path)-1], path[len(path)-1]
	for i, section := range sections {
		if i < len(p.open) && p.open[i] == section {
			continue
		}
		p.open = append(slices.Clone(p.open[:min(i, len(p.open))]), section)
		fmt.Fprintf(&p.out, "%s%s:\n", indent(i), scalar(section))
	}
	p.open = p.open[:len(sections)]
	depth := len(sections)
	switch v := v.(type) {
	case map[string]int:
		p.line(depth, name, "", p.sources[key])
		for _, queue := range slices.Sorted(maps.Keys(v)) {
			p.line(depth+1, queue, strconv.Itoa(v[queue]), "")
		}
	case []Token:
		p.tokens(depth, name, v, p.sources[key])
	case []string:
		p.line(depth, name, list(v), p.sources[key])
	default:
		p.line(depth, name, scalar(v), p.sources[key])
	}
}

func (p *printer) line(depth int, name, value, source string) {
	p.out.WriteString(indent(depth) + scalar(name) + ":")
	if value != "" {
		p.out.WriteString(" " + value)
	}
	if source != "" {
		p.out.WriteString("  # " + strings.Join(strings.Fields(source), " "))
	}
	p.out.WriteString("\n")
}

// tokens shows the start of each hash only: enough to tell tokens apart.
func (p *printer) tokens(depth int, name string, tokens []Token, source string) {
	if len(tokens) == 0 {
		p.line(depth, name, "[]", source)
		return
	}
	p.line(depth, name, "", source)
	for _, t := range tokens {
		p.out.WriteString(indent(depth+1) + "- name: " + scalar(t.Name) + "\n")
		p.line(depth+2, "sha256", scalar(t.SHA256[:min(8, len(t.SHA256))]+"…"), "")
		p.line(depth+2, "scopes", list(t.Scopes), "")
		p.line(depth+2, "owners", list(t.Owners), "")
		if !t.ExpiresAt.IsZero() {
			p.line(depth+2, "expires_at", scalar(t.ExpiresAt.UTC().Format(time.RFC3339)), "")
		}
	}
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = scalar(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// scalar writes a text, number or bool as YAML. strconv's escapes are YAML's too.
func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	if plain(s) {
		return s
	}
	return strconv.Quote(s)
}

// plain reports whether s is certainly the same text in YAML without quotes.
func plain(s string) bool {
	for i := range len(s) {
		b := s[i]
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || i == 0 && b == '/'
		if !letter && (i == 0 || !strings.Contains("0123456789_-./", string(b))) {
			return measure(s)
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

// measure reports whether s is a duration or size with a unit, which YAML takes for a text.
func measure(s string) bool {
	_, notDuration := time.ParseDuration(s)
	_, notSize := ParseSize(s)
	return s != "0" && notDuration == nil || strings.HasSuffix(s, "iB") && notSize == nil
}
