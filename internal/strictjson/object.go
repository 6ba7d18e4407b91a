package strictjson

import (
	"bytes"
	"encoding/json"

	"offstage/tasks"
)

// Slot is where a member of an object goes. Make one with [Into].
type Slot struct {
	into any
	want string
}

// Into is a slot for a value that encoding/json can decode into the pointer v; want says what fits, like "a string".
// A null leaves v as encoding/json leaves it: a pointer, slice or map becomes nil, any other keeps its value.
func Into(v any, want string) Slot { return Slot{v, want} }

// Object decodes the JSON object raw, which errors call name, into slots by exact key. It refuses a key without a slot
// and what [Check] refuses, but for a large number that a slot takes as it is (a json.RawMessage); then some slots may
// have been filled. TestObject and TestObject_Refuses hold it.
func Object(name string, raw []byte, slots map[string]Slot) error {
	if len(raw) == 0 {
		return &tasks.InvalidError{Field: name, Reason: "is required"}
	}
	return members(name, raw, func(key string, dec *json.Decoder) error {
		s, ok := slots[key]
		if !ok {
			return &tasks.InvalidError{Field: Member(name, key), Reason: "is not a known field"}
		}
		if err := dec.Decode(s.into); err != nil {
			return &tasks.InvalidError{Field: Member(name, key), Reason: "is not " + s.want}
		}
		return nil
	})
}

// Table decodes raw, a JSON object of strings that errors call name. It refuses a value that is no string and what
// [Check] refuses. Absent (nil) and null give a nil map.
func Table(name string, raw []byte) (map[string]string, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	table := map[string]string{}
	err := members(name, raw, func(key string, dec *json.Decoder) error {
		var v *string
		if err := dec.Decode(&v); err != nil || v == nil {
			return &tasks.InvalidError{Field: Member(name, key), Reason: "is not a string"}
		}
		table[key] = *v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return table, nil
}

// Member is what errors call the member key of the object name. A key is anybody's choice, so a long one is cut.
func Member(name, key string) string {
	const most = 80
	if runes := []rune(key); len(runes) > most {
		key = string(runes[:most-1]) + "…"
	}
	return name + "." + key
}

// members calls f with each key of the object raw; f decodes the value. The check comes last: that a value is of the
// wrong kind says more than what is wrong inside it.
func members(name string, raw []byte, f func(key string, dec *json.Decoder) error) error {
	var value json.RawMessage
	if err := json.Unmarshal(raw, &value); err != nil {
		return &tasks.InvalidError{Field: name, Reason: "is not valid JSON: " + err.Error()}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return &tasks.InvalidError{Field: name, Reason: "is not a JSON object"}
	}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return &tasks.InvalidError{Field: name, Reason: "is not a JSON object"}
		}
		if err := f(key, dec); err != nil {
			return err
		}
	}
	return (&checker{in: raw, root: name, wide: true}).run()
}
