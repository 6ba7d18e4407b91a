package httpcall

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

const maxHeaderValue = 1 << 10

// Result is the answer to a call. It is zero when there was none.
type Result struct {
	Status int `json:"status"`
	// Headers holds those that say what the body is or what to do next, like Content-Type and Location; of several
	// values the first, at most 1 KiB. Cookies are never among them.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the text that came back, or its base64 form when Encoding says so.
	Body string `json:"body,omitempty"`
	// Encoding is "base64" when the body is not UTF-8, else empty.
	Encoding string `json:"encoding,omitempty"`
	// Truncated says that there was more of the body than is kept.
	Truncated bool `json:"truncated,omitempty"`
	// DurationMS is the time from the start of the call to the end of what was read, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// read takes at most limit bytes of the body. The Result holds what came before an error.
func read(resp *http.Response, limit int64) (Result, error) {
	r := Result{Status: resp.StatusCode, Headers: kept(resp.Header)}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(body)) > limit {
		body, r.Truncated = body[:limit], true
	}
	r.Truncated = r.Truncated || err != nil
	whole := body
	if r.Truncated {
		whole = body[:len(body)-unfinished(body)]
	}
	if utf8.Valid(whole) {
		r.Body = string(whole)
	} else {
		r.Body, r.Encoding = base64.StdEncoding.EncodeToString(body), "base64"
	}
	return r, err
}

// unfinished is the number of bytes at the end of b that begin a rune and do not complete it.
func unfinished(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// kept picks the headers of a Result.
func kept(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		"Content-Type", "Content-Length", "Content-Language", "Date", "Etag", "Last-Modified", "Location", "Retry-After",
		"Request-Id", "X-Request-Id", "X-Correlation-Id",
	} {
		v := strings.ToValidUTF8(h.Get(name), "\ufffd")
		if len(v) > maxHeaderValue {
			v = strings.ToValidUTF8(v[:maxHeaderValue], "")
		}
		if v != "" {
			out[name] = v
		}
	}
	return out
}
