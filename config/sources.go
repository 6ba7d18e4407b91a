package config

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFileBytes bounds a configuration or secret file: what is larger is the wrong file.
const maxFileBytes = 1 << 20

// Sources says where each value came from: key -> "flag --listen", "env OFFSTAGE_LISTEN", "file PATH" or "default".
type Sources map[string]string

// value is one value on its way to a field. It is a struct so that viper passes it through as it is: viper would
// write the names in a map in lower case, and queues called "Mail" and "mail" would become one.
type value struct {
	v      any
	source string
	// file is where v is to be read from, for a key given through its _file twin.
	file string
}

// resolve gives the value itself, reading it from its file when it has one.
func (v value) resolve() (any, error) {
	if v.file == "" {
		return v.v, nil
	}
	b, err := readFile(v.file)
	if err != nil {
		return nil, &valueError{err.Error(), "check that the file is there and that the daemon's user may read it"}
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return nil, &valueError{v.file + " is empty", "write the value into it"}
	}
	return text, nil
}

// layer is the values of one level of precedence, by key.
type layer struct {
	values map[string]value
	faults Faults
}

// put adds a value for a key that may be a twin. A second value for one setting is a fault: nobody could say which
// one counts.
func (l *layer) put(all []setting, key string, v any, source string) {
	s, known := find(all, key)
	if base, twin := strings.CutSuffix(key, "_file"); twin {
		if b, ok := find(all, base); ok && b.twin {
			l.putFile(b.key, v, source)
			return
		}
	}
	if !known {
		l.faults = append(l.faults, unknownKey(all, key, source))
		return
	}
	l.add(s.key, value{v: v, source: source})
}

func (l *layer) putFile(key string, v any, source string) {
	path, err := parseText(v)
	if err == nil && path == "" {
		err = &valueError{"is empty", "give the path of the file, or take it out"}
	}
	if err != nil {
		l.faults = append(l.faults, faultsOf(key+"_file", source, err)...)
		return
	}
	l.add(key, value{file: path, source: source + " -> " + path})
}

func (l *layer) add(key string, v value) {
	if first, twice := l.values[key]; twice {
		l.faults = append(l.faults, &Fault{
			Key: key, Source: v.source, Reason: "is given twice, also by " + first.source, Hint: "take one of them out",
		})
		return
	}
	if l.values == nil {
		l.values = map[string]value{}
	}
	l.values[key] = v
}

func unknownKey(all []setting, key, source string) *Fault {
	hint := "take it out; `offstage config print` shows all keys"
	if near := nearest(strings.ToLower(key), keys(all)); near != "" {
		hint = "did you mean " + near + "?"
	} else if base, ok := strings.CutSuffix(key, "_file"); ok {
		if _, known := find(all, base); known {
			hint = "only secrets can be read from a file of their own; write " + base
		}
	}
	return &Fault{Key: key, Source: source, Reason: "is not a setting", Hint: hint}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return b, nil
}
