package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"offstage/internal/strictjson"
	"offstage/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck(t *testing.T) {
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
		err := strictjson.Check([]byte(in))
		var got string
		if e, ok := errors.AsType[*tasks.InvalidError](err); ok {
			got = e.Field
		}
		if (err == nil) != (field == "") || got != field {
			t.Errorf("Check(%.60q) = %v, want an error about %.60q", in, err, field)
		}
		if err == nil && !json.Valid([]byte(in)) {
			t.Errorf("Check(%.60q) = nil, but it is not JSON", in)
		}
	}
}

// TestFieldNames: "" is the field of what is accepted.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	for in, field := range map[string]string{
		`{"type":"T","max_retries":1,"a9":null}`: "", `[{"a":1}]`: "", `"A"`: "",
		`{"free":{"A":{"É":[{"B":1}]}}}`: "", `{"free":[{"A":1}]}`: "", `{"":1}`: "",

		`{"Type":1}`:               "Type",
		`{"\u0054ype":1}`:          "Type",
		`{"reſult":1}`:             "reſult", // folds to result, as does the Kelvin sign to k
		"{\"\u212aey\":1}":         "\u212aey",
		`{"parent":{"Task_ID":1}}`: "parent.Task_ID",
		`{"a":[{"B":1}]}`:          "a[0].B",
		`{"Free":{"a":1}}`:         "Free",
		`{"a":{"free":{"A":1}}}`:   "a.free.A",
		`{"free":{},"A":1}`:        "A",
		`{"free":{"a":1,"a":2}}`:   "free.a",
		`{`:                        "body",
	} {
		err := strictjson.FieldNames([]byte(in), "free")
		var got string
		if e, ok := errors.AsType[*tasks.InvalidError](err); ok {
			got = e.Field
		}
		if (err == nil) != (field == "") || got != field {
			t.Errorf("FieldNames(%s) = %v, want an error about %q", in, err, field)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"}{", "null", `{"a":1,"a":2}`, `{"a":"\ud800"}`, `[1e400]`, "\"\xff\"", `[[[{"":{"\u0000":-0.0e-0}}]]]`,
		"{\"\x00\":1}", `{"":""}`, strings.Repeat("[", 2000), "01", "[1,]", `{"a":1,}`, `"\ud83d\ude00"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := strictjson.Check(raw)
		if err == nil && (!json.Valid(raw) || !utf8.Valid(raw)) {
			t.Errorf("Check(%q) = nil", raw)
		}
		if e, ok := errors.AsType[*tasks.InvalidError](err); err != nil && (!ok || e.Field == "") {
			t.Errorf("Check(%q) = %#v, want an error that names the place", raw, err)
		}
	})
}
