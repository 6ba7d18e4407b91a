package api

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/hibiken/asynqmon"
)

// monitoringRoot is where asynqmon is mounted. Its pages know the path, so it cannot be moved by stripping a prefix.
const monitoringRoot = "/monitoring"

const (
	maxMonitoringPage  = 1_000_000
	maxMonitoringSize  = 100
	maxMonitoringBody  = 1 << 20
	maxMonitoringShown = 64 << 10 // of a payload or result
)

// RedisConnOpt gives asynqmon its Redis clients, one per call. An asynq.RedisConnOpt is one.
type RedisConnOpt interface {
	MakeRedisClient() any
}

// Dashboard is asynqmon, made fit to sit beside an API: its pages cannot be framed and load nothing from elsewhere,
// a page of a list is bounded, and a read-only one refuses every request that could change something. Make one with
// [Monitoring] and close it with Close.
type Dashboard struct {
	mon      *asynqmon.HTTPHandler
	clients  *clientKeeper
	readOnly bool
	policy   string

	closeOnce sync.Once
	closeErr  error
}

// Monitoring makes the dashboard for Config.Monitoring. prometheusAddr is the Prometheus server that its metrics page
// asks; empty hides the page. opt must make go-redis clients that may be closed; Monitoring panics when it does not.
func Monitoring(opt RedisConnOpt, readOnly bool, prometheusAddr string) *Dashboard {
	keeper := &clientKeeper{opt: opt}
	d := &Dashboard{
		mon: asynqmon.New(asynqmon.Options{
			RootPath: monitoringRoot + "/", RedisConnOpt: keeper, ReadOnly: readOnly, PrometheusAddress: prometheusAddr,
			PayloadFormatter: asynqmon.PayloadFormatterFunc(shown), ResultFormatter: asynqmon.ResultFormatterFunc(shown),
		}),
		clients: keeper, readOnly: readOnly,
	}
	d.policy = contentPolicy(d.indexScripts())
	return d
}

// ServeHTTP serves everything below /monitoring/.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", d.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if d.readOnly && r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeProblem(w, r, errReadOnly.problem("the dashboard shows and changes nothing (monitoring.read_only)"))
		return
	}
	r = clamped(r)
	r.Body = http.MaxBytesReader(w, r.Body, maxMonitoringBody)
	d.mon.ServeHTTP(w, r)
}

// Close closes the Redis clients that asynqmon was given. asynqmon's own Close leaves the second open when the first
// does not close.
func (d *Dashboard) Close() error {
	d.closeOnce.Do(func() { d.closeErr = d.clients.close() })
	return d.closeErr
}

// clientKeeper remembers the clients that opt made.
type clientKeeper struct {
	opt  RedisConnOpt
	made []io.Closer
}

// MakeRedisClient implements asynq.RedisConnOpt. It is called from asynqmon.New only.
func (k *clientKeeper) MakeRedisClient() any {
	client := k.opt.MakeRedisClient()
	if c, ok := client.(io.Closer); ok {
		k.made = append(k.made, c)
	}
	return client
}

func (k *clientKeeper) close() error {
	var errs []error
	for _, c := range k.made {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// indexScripts returns the inline scripts of asynqmon's page, which are the same for every request.
func (d *Dashboard) indexScripts() [][]byte {
	page := &pageBuffer{header: http.Header{}}
	d.mon.ServeHTTP(page, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: monitoringRoot + "/"}})
	var scripts [][]byte
	for _, found := range regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(page.body, -1) {
		scripts = append(scripts, found[1])
	}
	return scripts
}

// contentPolicy allows the page its own files and the given inline scripts, by hash. Styles are inline because
// Material-UI makes them at run time; the web fonts that the page asks Google for are not loaded, and not missed.
func contentPolicy(scripts [][]byte) string {
	allowed := []string{"'self'"}
	for _, s := range scripts {
		sum := sha256.Sum256(s)
		allowed = append(allowed, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return "default-src 'none'; script-src " + strings.Join(allowed, " ") + "; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// pageBuffer takes a response into memory.
type pageBuffer struct {
	header http.Header
	body   []byte
}

func (b *pageBuffer) Header() http.Header { return b.header }
func (b *pageBuffer) WriteHeader(int)     {}
func (b *pageBuffer) Write(p []byte) (int, error) {
	b.body = append(b.body, p...)
	return len(p), nil
}

// clamped bounds the size and page parameters, which asynqmon hands to Redis as they are.
func clamped(r *http.Request) *http.Request {
	q := r.URL.Query()
	if !q.Has("size") && !q.Has("page") {
		return r
	}
	clampParam(q, "size", maxMonitoringSize)
	clampParam(q, "page", maxMonitoringPage)
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return r
}

func clampParam(q url.Values, name string, most int) {
	n, err := strconv.ParseFloat(q.Get(name), 64) // 1e9 is a number here, too
	if err != nil || math.IsNaN(n) {
		q.Del(name)
		return
	}
	q.Set(name, strconv.Itoa(int(min(max(n, 1), float64(most)))))
}

// shown is a payload or result as the dashboard prints it: text as it is, with other bytes and control characters
// escaped, and bounded, since a list shows many.
func shown(_ string, b []byte) string {
	cut := len(b) - maxMonitoringShown
	if cut > 0 {
		b = b[:maxMonitoringShown]
	}
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(string(b), "\uFFFD") {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	if cut > 0 {
		fmt.Fprintf(&out, " …(%d bytes more)", cut)
	}
	return out.String()
}
