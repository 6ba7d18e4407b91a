package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// fromFile reads the configuration file at path; no path gives an empty layer.
func fromFile(all []setting, path string) layer {
	l := layer{}
	if path == "" {
		return l
	}
	source := "file " + path
	tree, err := decodeFile(path)
	if err != nil {
		fault := faultsOf(path, "", err)[0]
		if fault.Hint == "" {
			fault.Hint = "check the path given with --config or OFFSTAGE_CONFIG"
		}
		l.faults = Faults{fault}
		return l
	}
	l.walk(all, "", tree, source)
	return l
}

// decodeFile uses viper's decoders rather than viper's own reading, which would write all names in lower case.
func decodeFile(path string) (map[string]any, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	switch format {
	case "yaml", "yml", "toml", "json":
	default:
		return nil, &valueError{"its format is not known", "name it .yaml, .yml, .toml or .json"}
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	decoder, err := viper.NewCodecRegistry().Decoder(format)
	if err != nil {
		return nil, err
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return tree, nil
	}
	if err := decoder.Decode(text, tree); err != nil {
		return nil, &valueError{fmt.Sprintf("is not valid %s: %s", strings.ToUpper(format), withoutContent(err)), "correct the file"}
	}
	return tree, ignored(format, text)
}

// ignored finds what the decoder of a valid file passes over in silence.
func ignored(format string, text []byte) error {
	switch format {
	case "json":
		if name, twice := repeatedName(json.NewDecoder(bytes.NewReader(text))); twice {
			return &valueError{"has the name " + quote(name) + " twice in one object", "take one of them out"}
		}
	case "yaml", "yml":
		begun := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, " \t\r\n")
			if begun && (line == "---" || strings.HasPrefix(line, "--- ")) {
				return &valueError{"has more than one YAML document", "keep one"}
			}
			begun = begun || line != "" && !strings.HasPrefix(line, "#")
		}
	}
	return nil
}

// repeatedName finds a name that stands twice in one object of valid JSON.
func repeatedName(d *json.Decoder) (string, bool) {
	token, err := d.Token()
	open, nested := token.(json.Delim)
	if err != nil || !nested {
		return "", false
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			token, err = d.Token()
			name, ok := token.(string)
			if err != nil || !ok || seen[name] {
				return name, err == nil && ok
			}
			seen[name] = true
		}
		if name, twice := repeatedName(d); twice {
			return name, true
		}
	}
	_, _ = d.Token() // the closing delimiter
	return "", false
}

// withoutContent is a parser's message up to where it cites the file, which may be a secret.
func withoutContent(err error) string {
	msg, _, cites := strings.Cut(err.Error(), "`")
	if cites {
		msg += "…"
	}
	return strings.Join(strings.Fields(msg), " ")
}

// walk puts the leaves of a file's tree, with the path to them as their key. An empty leaf is a key that was left
// unset.
func (l *layer) walk(all []setting, prefix string, tree map[string]any, source string) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		key := prefix + name
		v, err := normal(tree[name])
		if err != nil {
			l.faults = append(l.faults, faultsOf(key, source, err)...)
			continue
		}
		section, isMap := v.(map[string]any)
		_, known := find(all, key)
		switch {
		case v == nil && (known || isSection(all, key)) && prefix != secretsKey+".":
		case isMap && !known && isSection(all, key):
			l.walk(all, key+".", section, source)
		case isSection(all, key):
			l.faults = append(l.faults, &Fault{
				Key: key, Source: source, Reason: "is " + kind(v) + ", not a map", Hint: "write its keys below it",
			})
		default:
			l.put(all, key, v, source)
		}
	}
}

func isSection(all []setting, key string) bool {
	return key == secretsKey || key == "webhooks" ||
		slices.ContainsFunc(all, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// normal brings what the three formats' parsers give to one form: maps of texts, lists of any, int and float64.
func normal(v any) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, item := range v {
			m[fmt.Sprint(k)] = item
		}
		return normal(m)
	case map[string]any:
		for name, item := range v {
			n, err := normal(item)
			if err != nil {
				return nil, err
			}
			v[name] = n
		}
		return v, nil
	case []any:
		for i, item := range v {
			n, err := normal(item)
			if err != nil {
				return nil, err
			}
			v[i] = n
		}
		return v, nil
	case int64:
		return int(v), nil
	case uint64:
		return nil, errors.New("is too large a number")
	case []map[string]any: // TOML's [[tables]]
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item
		}
		return normal(list)
	}
	return v, nil
}
