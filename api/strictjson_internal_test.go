package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"offstage/tasks"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for in, field := range map[string]string{
		// "" is the field of what is accepted.
		`null`: "", ` true `: "", `-0.5e+3`: "", `""`: "", `[]`: "", `{}`: "", "[1 , 2]\n": "", `{"a":{"a":[{"a":1}]}}`: "",
		`"\ud83d\ude00 \u0000 \\ud800"`: "", "\"\u00e9\U0001F600\"": "", `[[],[{}],{"a":[]}]`: "",

		``: "body", ` `: "body", `}{`: "body", `nul`: "body", `1 2`: "body", `[1,]`: "body", `{"a":1,}`: "body",
		`{"a" 1}`: "body", `{1:1}`: "body", `[1 2]`: "body", `01`: "body", `1e`: "body", `"a`: "body", `"\x"`: "body",
		`"\u12"`: "body", "\"\x00\"": "body", "\"\n\"": "body", `{`: "body", `[`: "body", `[}`: "body", "\x00": "body",
		"[\x00": "body", `{"a":1,"b"`: "body",

		`{"a":1,"a":2}`:                  "a",
		`{"a":{"b":1,"\u0062":2}}`:       "a.b",
		`{"a":[1,{"c":"\ud800"}]}`:       "a[1].c",
		`{"a":"\udc00\ud800"}`:           "a",
		`{"a":"\ud800\u0041"}`:           "a",
		`{"a":[1,2,1e400]}`:              "a[2]",
		`[1e400]`:                        "[0]",
		`{"a":1e400}`:                    "a",
		"{\"a\":\"\xff\"}":               "a",
		"\"\xc3\x28\"":                   "body",
		strings.Repeat("[", 10_000):      strings.Repeat("[0]", 67)[:200] + "…",
		strings.Repeat(`{"a":`, 500):     "body",
		`{"":{"":[1e400]}}`:              "[0]",
		`[[1],[1,` + "\"\xff\"" + `],1]`: "[1][1]",
	} {
		err := checkJSON([]byte(in))
		var got string
		if e, ok := errors.AsType[*tasks.InvalidError](err); ok {
			got = e.Field
		}
		if (err == nil) != (field == "") || got != field {
			t.Errorf("checkJSON(%.60q) = %v, want an error about %.60q", in, err, field)
		}
		if err == nil && !json.Valid([]byte(in)) {
			t.Errorf("checkJSON(%.60q) = nil, but it is not JSON", in)
		}
	}
}
