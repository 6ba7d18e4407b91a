package httpcall_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"offstage/tasks"
	"offstage/tasks/httpcall"
)

var private = httpcall.Policy{AllowPrivate: true}

// serve starts a server for one test.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// payload builds a payload for url from the other members.
func payload(url string, members map[string]any) []byte {
	all := map[string]any{"url": url}
	maps.Copy(all, members)
	b, _ := json.Marshal(all)
	return b
}

func TestRun_Request(t *testing.T) {
	t.Parallel()
	type seen struct{ Method, Path, Body, Type, Agent, Extra string }
	requests := make(chan seen, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r.Method, r.URL.RequestURI(), string(body), r.Header.Get("Content-Type"), r.UserAgent(), r.Header.Get("X-Extra")}
	})
	tests := map[string]struct {
		path    string
		members map[string]any
		want    seen
	}{
		"Get":      {"/a?b=c#d", nil, seen{"GET", "/a?b=c", "", "", "offstage", ""}},
		"Method":   {"/", map[string]any{"method": "DELETE"}, seen{"DELETE", "/", "", "", "offstage", ""}},
		"Text":     {"/", map[string]any{"body": "grüße \x00"}, seen{"POST", "/", "grüße \x00", "text/plain; charset=utf-8", "offstage", ""}},
		"Object":   {"/", map[string]any{"body": map[string]int{"a": 1}}, seen{"POST", "/", `{"a":1}`, "application/json", "offstage", ""}},
		"Number":   {"/", map[string]any{"body": json.RawMessage("1e400"), "method": "PUT"}, seen{"PUT", "/", "1e400", "application/json", "offstage", ""}},
		"False":    {"/", map[string]any{"body": false}, seen{"POST", "/", "false", "application/json", "offstage", ""}},
		"NullBody": {"/", map[string]any{"body": nil}, seen{"GET", "/", "", "", "offstage", ""}},
		"Empty":    {"/", map[string]any{"body": ""}, seen{"POST", "/", "", "text/plain; charset=utf-8", "offstage", ""}},
		"Headers": {
			"/", map[string]any{"body": "x", "headers": map[string]string{"x-extra": "1", "content-type": "a/b", "User-Agent": "me"}},
			seen{"POST", "/", "x", "a/b", "me", "1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := httpcall.Run(t.Context(), payload(url+tt.path, tt.members), io.Discard, private); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, <-requests); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_Answer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body []byte
		max  int64
		want httpcall.Result
	}{
		"Text":      {[]byte("grüße"), 0, httpcall.Result{Body: "grüße"}},
		"Binary":    {[]byte("\xff\x00"), 0, httpcall.Result{Body: base64.StdEncoding.EncodeToString([]byte("\xff\x00")), Encoding: "base64"}},
		"AtLimit":   {[]byte("12345"), 5, httpcall.Result{Body: "12345"}},
		"OverLimit": {[]byte("123456"), 5, httpcall.Result{Body: "12345", Truncated: true}},
		"RuneCut":   {[]byte("aa€€"), 4, httpcall.Result{Body: "aa", Truncated: true}},
		"RuneWhole": {[]byte("a€€"), 4, httpcall.Result{Body: "a€", Truncated: true}},
		"Default":   {bytes.Repeat([]byte("x"), 1<<20), 0, httpcall.Result{Body: strings.Repeat("x", 64<<10), Truncated: true}},
		"Nothing":   {nil, 0, httpcall.Result{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = nil
				w.Header().Set("Content-Type", "x/y")
				w.Header().Set("Content-Encoding", "identity")
				w.Header().Set("Set-Cookie", "secret=1")
				w.Header().Set("X-Request-Id", strings.Repeat("i", 5000))
				w.WriteHeader(http.StatusCreated)
				w.(http.Flusher).Flush()
				_, _ = w.Write(tt.body)
			})
			got, err := httpcall.Run(t.Context(), payload(url, nil), io.Discard, httpcall.Policy{AllowPrivate: true, MaxResponseBytes: tt.max})
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Status, tt.want.DurationMS = http.StatusCreated, got.DurationMS
			tt.want.Headers = map[string]string{"Content-Type": "x/y", "X-Request-Id": strings.Repeat("i", 1024)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Run (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRun_EndlessAnswer: a body without end costs what is kept of it.
func TestRun_EndlessAnswer(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 32<<10)); err != nil {
				return
			}
		}
	})
	r, err := httpcall.Run(t.Context(), payload(url, nil), io.Discard, private)
	if err != nil || len(r.Body) != 64<<10 || !r.Truncated {
		t.Errorf("Run = %d bytes, truncated %v, %v, want 64 KiB and no error", len(r.Body), r.Truncated, err)
	}
}

func TestRun_Status(t *testing.T) {
	t.Parallel()
	const none = -1
	tests := map[string]struct {
		status     int
		retryAfter string
		expect     []int
		ok         bool
		permanent  bool
		delay      time.Duration
	}{
		"200":               {200, "", nil, true, false, none},
		"204":               {204, "", nil, true, false, none},
		"299":               {299, "", nil, true, false, none},
		"301":               {301, "", nil, false, true, none},
		"304":               {304, "", nil, false, true, none},
		"400":               {400, "", nil, false, true, none},
		"404":               {404, "", nil, false, true, none},
		"404RetryAfter":     {404, "7", nil, false, true, none},
		"408":               {408, "", nil, false, false, none},
		"425":               {425, "", nil, false, false, none},
		"429":               {429, "", nil, false, false, none},
		"429RetryAfter":     {429, "2", nil, false, false, 2 * time.Second},
		"500":               {500, "", nil, false, false, none},
		"500RetryAfter":     {500, "2", nil, false, false, none},
		"503RetryAfter":     {503, "120", nil, false, false, 2 * time.Minute},
		"503RetryAfterPast": {503, "Sun, 06 Nov 1994 08:49:37 GMT", nil, false, false, 0},
		"503RetryAfterDate": {503, "Fri, 06 Nov 2195 08:49:37 GMT", nil, false, false, 24 * time.Hour},
		"503RetryAfterLong": {503, "2000000000", nil, false, false, 24 * time.Hour},
		"503RetryAfterBad":  {503, "-3", nil, false, false, none},
		"Expected404":       {404, "", []int{404}, true, false, none},
		"Expected":          {201, "", []int{200, 201}, true, false, none},
		"NotExpected":       {202, "", []int{200}, false, false, none},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
			})
			members := map[string]any{}
			if tt.expect != nil {
				members["expect_status"] = tt.expect
			}
			r, err := httpcall.Run(t.Context(), payload(url, members), io.Discard, private)
			delay, asked := tasks.RetryDelay(err)
			if !asked {
				delay = none
			}
			if r.Status != tt.status || (err == nil) != tt.ok || tasks.IsPermanent(err) != tt.permanent || delay != tt.delay {
				t.Errorf("Run = %d, %v, permanent %v, delay %s", r.Status, err, tasks.IsPermanent(err), delay)
			}
			if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("status %d", tt.status)) {
				t.Errorf("Run error = %q, want it to name the status", err)
			}
		})
	}
}

// TestRun_TellsNoSecrets: the query, the headers and the body of a call appear in no error and no output.
func TestRun_TellsNoSecrets(t *testing.T) {
	t.Parallel()
	members := map[string]any{"body": "secret", "headers": map[string]string{"Authorization": "secret"}}
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, url := range []string{bad, gone.URL} {
		var out strings.Builder
		_, err := httpcall.Run(t.Context(), payload(url+"/path?key=secret", members), &out, private)
		if err == nil || strings.Contains(err.Error()+out.String(), "secret") || !strings.Contains(err.Error(), "/path") {
			t.Errorf("Run error = %v, output %q, want no secret in either", err, &out)
		}
		if tasks.IsPermanent(err) || tasks.IsRejected(err) {
			t.Errorf("Run error %v is final, want one that may be retried", err)
		}
	}
}

func TestRun_WritesALine(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	var out strings.Builder
	if _, err := httpcall.Run(t.Context(), payload(url+"/a?b", nil), &out, private); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "GET "+url+"/a: status 200 OK in ") || !strings.HasSuffix(got, " ms\n") {
		t.Errorf("output = %q", got)
	}
}

// TestRun_Cancel: the call ends with its context, before the answer and in the middle of it.
func TestRun_Cancel(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(http.ResponseWriter){
		"BeforeAnswer": func(http.ResponseWriter) {},
		"WithinAnswer": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "part")
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				cancel(tasks.ErrCancelled)
				<-r.Context().Done()
			})
			began := time.Now()
			_, err := httpcall.Run(ctx, payload(url, nil), io.Discard, private)
			if !errors.Is(err, tasks.ErrCancelled) || time.Since(began) > 5*time.Second {
				t.Errorf("Run error = %v after %s, want ErrCancelled at once", err, time.Since(began))
			}
		})
	}
}

// TestRun_BrokenAnswer: an answer that breaks off may be retried, and what came is kept.
func TestRun_BrokenAnswer(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	r, err := httpcall.Run(t.Context(), payload(url, nil), io.Discard, private)
	if err == nil || tasks.IsPermanent(err) || r.Body != "part" || !r.Truncated || r.Status != 200 {
		t.Errorf("Run = %+v, %v, want the part and an error that may be retried", r, err)
	}
}

func TestRun_TLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	r, err := httpcall.Run(t.Context(), payload(server.URL, nil), io.Discard, private)
	if err != nil || r.Body != "HTTP/2.0" {
		t.Errorf("Run = %+v, %v, want an answer over HTTP/2", r, err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const good = `"url":"https://example.com/"`
	tests := map[string]struct{ payload, field, reason string }{
		"Empty":         {``, "payload", "is required"},
		"NoObject":      {`"x"`, "payload", "is not a JSON object"},
		"Trailing":      {`{` + good + `}{}`, "payload", "is not valid JSON"},
		"BadUTF8":       {"{" + good + ",\"body\":\"\xff\"}", "payload", "is not valid UTF-8"},
		"LoneSurrogate": {`{` + good + `,"body":"\ud800"}`, "payload", "surrogate"},
		"Unknown":       {`{` + good + `,"follow":true}`, "payload.follow", "is not a known field"},
		"OtherCase":     {`{"URL":"https://example.com"}`, "payload.URL", "is not a known field"},
		"Twice":         {`{` + good + `,` + good + `}`, "payload.url", "is given twice"},
		"NoURL":         {`{}`, "payload.url", "is required"},
		"URLNumber":     {`{"url":1}`, "payload.url", "is not a string"},
		"URLRelative":   {`{"url":"/a"}`, "payload.url", "is not valid"},
		"URLScheme":     {`{"url":"file:///etc/passwd"}`, "payload.url", "is not valid"},
		"URLGopher":     {`{"url":"gopher://example.com/"}`, "payload.url", "is not valid"},
		"URLNoHost":     {`{"url":"http:///a"}`, "payload.url", "is not valid"},
		"URLPort":       {`{"url":"http://example.com:99999/"}`, "payload.url", "is not valid"},
		"URLPortZero":   {`{"url":"http://example.com:0/"}`, "payload.url", "is not valid"},
		"URLNewline":    {`{"url":"http://example.com/\nX"}`, "payload.url", "is not valid"},
		"URLUser":       {`{"url":"http://a:b@example.com/"}`, "payload.url", "has user information"},
		"URLUserOnly":   {`{"url":"http://127.0.0.1@example.com/"}`, "payload.url", "has user information"},
		"URLLong":       {`{"url":"http://example.com/` + strings.Repeat("a", 8<<10) + `"}`, "payload.url", "bytes long"},
		"URLDenied":     {`{"url":"http://127.0.0.1/"}`, "payload.url", "destination is not allowed"},
		"MethodLower":   {`{` + good + `,"method":"get"}`, "payload.method", "is not a method"},
		"MethodEmpty":   {`{` + good + `,"method":""}`, "payload.method", "is not a method"},
		"MethodSplit":   {`{` + good + `,"method":"GET / HTTP/1.1"}`, "payload.method", "is not a method"},
		"MethodConnect": {`{` + good + `,"method":"CONNECT"}`, "payload.method", "CONNECT is not allowed"},
		"HeaderSplit":   {`{` + good + `,"headers":{"A":"b\r\nC: d"}}`, "payload.headers.A", "has a control character"},
		"HeaderName":    {`{` + good + `,"headers":{"A b":"c"}}`, "payload.headers", "cannot name a header"},
		"HeaderEmpty":   {`{` + good + `,"headers":{"":"c"}}`, "payload.headers", "cannot name a header"},
		"HeaderHost":    {`{` + good + `,"headers":{"host":"internal"}}`, "payload.headers.host", "is set by the daemon"},
		"HeaderProxy":   {`{` + good + `,"headers":{"proxy-authorization":"x"}}`, "payload.headers.proxy-authorization", "is set by the daemon"},
		"HeaderTwice":   {`{` + good + `,"headers":{"A":"1","a":"2"}}`, "payload.headers.a", "is given twice"},
		"HeaderNumber":  {`{` + good + `,"headers":{"A":1}}`, "payload.headers.A", "is not a string"},
		"HeaderList":    {`{` + good + `,"headers":[]}`, "payload.headers", "is not a JSON object"},
		"HeadersLarge":  {`{` + good + `,"headers":{"A":"` + strings.Repeat("x", 16<<10) + `"}}`, "payload.headers", "bytes"},
		"ExpectEmpty":   {`{` + good + `,"expect_status":[]}`, "payload.expect_status", "is empty"},
		"ExpectNull":    {`{` + good + `,"expect_status":[null]}`, "payload.expect_status[0]", "is null"},
		"ExpectRange":   {`{` + good + `,"expect_status":[200,99]}`, "payload.expect_status[1]", "is 99"},
		"ExpectHuge":    {`{` + good + `,"expect_status":[1e400]}`, "payload.expect_status", "is not an array of whole numbers"},
		"ExpectNumber":  {`{` + good + `,"expect_status":200}`, "payload.expect_status", "is not an array of whole numbers"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := httpcall.Check([]byte(tt.payload), httpcall.Policy{})
			invalid, ok := errors.AsType[*tasks.InvalidError](err)
			if !ok || invalid.Field != tt.field || !strings.Contains(invalid.Reason, tt.reason) {
				t.Fatalf("Check = %v, want %s: %s", err, tt.field, tt.reason)
			}
			if !tasks.IsRejected(err) || !errors.Is(err, tasks.ErrInvalid) || len(err.Error()) > 1000 {
				t.Errorf("Check = %v, want a short rejection that is ErrInvalid", err)
			}
			if _, rerr := httpcall.Run(t.Context(), []byte(tt.payload), io.Discard, httpcall.Policy{}); rerr == nil || rerr.Error() != err.Error() {
				t.Errorf("Run error = %v, want %v", rerr, err)
			}
		})
	}
	if err := httpcall.Check([]byte(`{`+good+`,"method":null,"headers":null,"body":null,"expect_status":null}`), httpcall.Policy{}); err != nil {
		t.Errorf("Check of nulls = %v, want nil", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"method":"PUT","url":"https://example.com/a?b#c","headers":{"A":"b"},"body":{"x":1},"expect_status":[200]}`))
	f.Add([]byte(`{"url":"http://0x7f.1:80/","body":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := httpcall.Check(payload, httpcall.Policy{})
		if err == nil && !json.Valid(payload) {
			t.Errorf("Check(%q) = nil", payload)
		}
		if err != nil && (!tasks.IsRejected(err) || !errors.Is(err, tasks.ErrInvalid)) {
			t.Errorf("Check(%q) = %v, want a rejection that is ErrInvalid", payload, err)
		}
	})
}
