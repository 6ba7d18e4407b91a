package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"offstage/internal/strictjson"
	"offstage/tasks"
)

const (
	maxURLBytes    = 8 << 10
	maxHeaders     = 64
	maxHeaderBytes = 16 << 10
)

// request is a payload that has been read.
type request struct {
	method  string
	url     *url.URL
	headers map[string]string
	body    []byte
	isJSON  bool // body was given as JSON other than a string
	expect  []int
}

// Check reports every fault of payload under p, joined; each is a *tasks.InvalidError that names its field, and all are
// marked with [tasks.Rejected]. It resolves no name and sends nothing.
func Check(payload []byte, p Policy) error {
	_, err := parse(payload, p)
	return err
}

func parse(payload []byte, p Policy) (*request, error) {
	var method, rawURL *string
	var headers, body json.RawMessage
	var expect []*int
	err := strictjson.Object("payload", payload, map[string]strictjson.Slot{
		"method":        strictjson.Into(&method, "a string"),
		"url":           strictjson.Into(&rawURL, "a string"),
		"headers":       strictjson.Into(&headers, "an object of strings"),
		"body":          strictjson.Into(&body, "JSON"),
		"expect_status": strictjson.Into(&expect, "an array of whole numbers"),
	})
	if err != nil {
		return nil, tasks.Rejected(err)
	}
	r, f := &request{}, &faults{}
	f.body(r, body)
	f.method(r, method)
	f.url(r, rawURL, p)
	f.headers(r, headers)
	f.expect(r, expect)
	return r, tasks.Rejected(errors.Join(f.errs...))
}

// faults gathers what is wrong with a payload.
type faults struct{ errs []error }

func (f *faults) add(field, reason, hint string) {
	f.errs = append(f.errs, &tasks.InvalidError{Field: field, Reason: reason, Hint: hint})
}

// body takes a JSON string as the bytes to send and any other JSON as it is.
func (f *faults) body(r *request, raw json.RawMessage) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			f.add("payload.body", "is not a JSON string", "")
		}
		r.body = []byte(text)
	default:
		r.body, r.isJSON = bytes.TrimSpace(raw), true
	}
}

func (f *faults) method(r *request, method *string) {
	switch {
	case method != nil:
		r.method = *method
	case r.body != nil:
		r.method = http.MethodPost
	default:
		r.method = http.MethodGet
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-"
	switch {
	case r.method == "" || len(r.method) > 32 || strings.Trim(r.method, letters) != "":
		f.add("payload.method", fmt.Sprintf("%.40q is not a method", r.method), "like GET or POST, in capitals")
	case r.method == http.MethodConnect || r.method == http.MethodTrace:
		f.add("payload.method", r.method+" is not allowed", "")
	}
}

func (f *faults) url(r *request, raw *string, p Policy) {
	const field, hint = "payload.url", "an absolute http or https URL"
	if raw == nil || *raw == "" {
		f.add(field, "is required", hint)
		return
	}
	u, err := url.Parse(*raw)
	switch {
	case len(*raw) > maxURLBytes:
		f.add(field, fmt.Sprintf("is %d bytes long", len(*raw)), fmt.Sprintf("at most %d", maxURLBytes))
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || !port(u):
		f.add(field, "is not valid", hint)
	case u.User != nil:
		f.add(field, "has user information", "send credentials in headers")
	case p.guard().CheckHost(u.Hostname()) != nil:
		f.errs = append(f.errs, denied())
	}
	if u != nil {
		u.Fragment, u.RawFragment = "", ""
	}
	r.url = u
}

// denied is the one error for a destination that is not allowed, however that came out.
func denied() error {
	return &tasks.InvalidError{
		Field: "payload.url", Reason: ErrDenied.Error(), Sentinel: fmt.Errorf("%w: %w", tasks.ErrInvalid, ErrDenied),
	}
}

func port(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.Atoi(u.Port())
	return err == nil && n > 0 && n < 1<<16
}

func (f *faults) headers(r *request, raw json.RawMessage) {
	headers, err := strictjson.Table("payload.headers", raw)
	if err != nil {
		f.errs = append(f.errs, err)
		return
	}
	r.headers = map[string]string{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		v, canonical := headers[name], http.CanonicalHeaderKey(name)
		field := strictjson.Member("payload.headers", name)
		size += len(name) + len(v)
		_, twice := r.headers[canonical]
		switch {
		case !token(name):
			f.add("payload.headers", fmt.Sprintf("%.80q cannot name a header", name), "")
		case twice:
			f.add(field, "is given twice", "")
		case ours(canonical):
			f.add(field, "is set by the daemon", "leave it out")
		case strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			f.add(field, "has a control character", "")
		}
		r.headers[canonical] = v
	}
	if len(headers) > maxHeaders || size > maxHeaderBytes {
		f.add("payload.headers", fmt.Sprintf("are %d headers of %d bytes", len(headers), size),
			fmt.Sprintf("at most %d of %d", maxHeaders, maxHeaderBytes))
	}
}

// token reports whether s is a token of RFC 9110.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// ours reports whether the header belongs to the connection or decides where the request goes.
func ours(canonical string) bool {
	return strings.HasPrefix(canonical, "Proxy-") || slices.Contains([]string{
		"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Expect",
		"Http2-Settings",
	}, canonical)
}

func (f *faults) expect(r *request, expect []*int) {
	if expect != nil && len(expect) == 0 {
		f.add("payload.expect_status", "is empty", "leave it out for any 2xx")
	}
	for i, code := range expect {
		switch field := fmt.Sprintf("payload.expect_status[%d]", i); {
		case code == nil:
			f.add(field, "is null", "")
		case *code < 200 || *code > 599:
			f.add(field, fmt.Sprintf("is %d", *code), "200 to 599")
		default:
			r.expect = append(r.expect, *code)
		}
	}
}

// expects reports whether status counts as success.
func (r *request) expects(status int) bool {
	if r.expect == nil {
		return status >= 200 && status <= 299
	}
	return slices.Contains(r.expect, status)
}

// text names the call without its query, which may hold secrets.
func (r *request) text() string {
	u := url.URL{Scheme: r.url.Scheme, Host: r.url.Host, Path: r.url.Path, RawPath: r.url.RawPath}
	const most = 500
	text := r.method + " " + u.String()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
