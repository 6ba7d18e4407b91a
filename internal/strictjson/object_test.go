package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"offstage/internal/strictjson"
	"offstage/tasks"
)

// target is what the tests decode into.
type target struct {
	Name *string
	List []int
	Any  json.RawMessage
}

func (o *target) read(raw string) error {
	return strictjson.Object("payload", []byte(raw), map[string]strictjson.Slot{
		"name": strictjson.Into(&o.Name, "a string"),
		"list": strictjson.Into(&o.List, "a list of numbers"),
		"any":  strictjson.Into(&o.Any, "JSON"),
	})
}

func TestObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]target{
		`{}`:                        {},
		`{"name":null,"list":null}`: {},
		` {"name":"\ud83d\ude00","list":[1],"any":{"Name":[]}} `: {new("😀"), []int{1}, json.RawMessage(`{"Name":[]}`)},
		`{"any":[1e400]}`: {Any: json.RawMessage(`[1e400]`)},
	} {
		var got target
		if err := got.read(in); err != nil {
			t.Errorf("Object(%s) = %v, want nil", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Object(%s) (-want +got):\n%s", in, diff)
		}
	}
}

func TestObject_Refuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                                      "payload: is required",
		`{"name":"a"}{}`:                        "payload: is not valid JSON",
		`null`:                                  "payload: is not a JSON object",
		`["name"]`:                              "payload: is not a JSON object",
		`{"Name":"a"}`:                          "payload.Name: is not a known field",
		`{"` + strings.Repeat("k", 99) + `":1}`: "payload." + strings.Repeat("k", 79) + "…: is not a known field",
		`{"name":1}`:                            "payload.name: is not a string",
		`{"list":[1e400]}`:                      "payload.list: is not a list of numbers",
		`{"name":"a","n\u0061me":"b"}`:          "payload.name: is given twice",
		`{"any":{"a":[{"b":1,"b":2}]}}`:         "payload.any.a[0].b: is given twice",
		`{"any":"\ud800"}`:                      "payload: has half of a surrogate pair",
		"{\"name\":\"\xff\"}":                   "payload: is not valid UTF-8",
	} {
		err := new(target).read(in)
		if _, ok := errors.AsType[*tasks.InvalidError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Object(%.60q) = %v, want %s", in, err, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]map[string]string{
		`null`: nil, `{}`: {}, `{"A":"1","a":"2","":""}`: {"A": "1", "a": "2", "": ""},
	} {
		got, err := strictjson.Table("env", []byte(in))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Table(%s) = %v (-want +got):\n%s", in, err, diff)
		}
	}
	if got, err := strictjson.Table("env", nil); got != nil || err != nil {
		t.Errorf("Table(nil) = %v, %v, want nil, nil", got, err)
	}
	for in, want := range map[string]string{
		`[]`:                "env: is not a JSON object",
		`{"A":1}`:           "env.A: is not a string",
		`{"A":null}`:        "env.A: is not a string",
		`{"A":"1","A":"2"}`: "env.A: is given twice",
		`{"A":"\udc00"}`:    "env: has half of a surrogate pair",
	} {
		if got, err := strictjson.Table("env", []byte(in)); err == nil || err.Error() != want || got != nil {
			t.Errorf("Table(%s) = %v, %v, want %s", in, got, err, want)
		}
	}
}
