package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"offstage/tasks"
)

// maxWait bounds the wait parameter.
const maxWait = 5 * time.Minute

// params reads a request's query. Faults are collected; err reports them all.
type params struct {
	values url.Values
	errs   []error
}

// query parses r's query and refuses parameters that are not among known.
func query(r *http.Request, known ...string) *params {
	values, err := url.ParseQuery(r.URL.RawQuery)
	p := &params{values: values}
	if err != nil {
		p.fail("query", err.Error(), "")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			p.fail(name, "is not a known parameter", hintOf(known))
		case len(given) > 1 && name != "status":
			p.fail(name, "is given more than once", "")
		}
	}
	return p
}

func hintOf(known []string) string {
	if len(known) == 0 {
		return "this call takes none"
	}
	return "known: " + strings.Join(known, ", ")
}

func (p *params) fail(name, reason, hint string) {
	p.errs = append(p.errs, &tasks.InvalidError{Field: name, Reason: reason, Hint: hint})
}

// err is every fault so far, joined; nil when there is none.
func (p *params) err() error { return errors.Join(p.errs...) }

// text is a parameter of at most `most` bytes.
func (p *params) text(name string, most int) string {
	v := p.values.Get(name)
	if len(v) > most {
		p.fail(name, fmt.Sprintf("is %d bytes long", len(v)), fmt.Sprintf("at most %d", most))
	}
	return v
}

// integer is a parameter from least to most, or otherwise when it is not given.
func (p *params) integer(name string, otherwise, least, most int64) int64 {
	if !p.values.Has(name) {
		return otherwise
	}
	n, err := strconv.ParseInt(p.values.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		p.fail(name, fmt.Sprintf("%q is not a number from %d to %d", p.values.Get(name), least, most), "")
		return otherwise
	}
	return n
}

// wait is the wait parameter; zero when it is not given.
func (p *params) wait() time.Duration {
	if !p.values.Has("wait") {
		return 0
	}
	d, err := time.ParseDuration(p.values.Get("wait"))
	if err != nil || d < 0 || d > maxWait {
		p.fail("wait", fmt.Sprintf("%q is not a duration from 0s to %s", p.values.Get("wait"), maxWait),
			"like 30s; ask again when it ran out")
		return 0
	}
	return d
}

// statuses reads status, which may be repeated and may list several with commas.
func (p *params) statuses() []tasks.Status {
	var all []tasks.Status
	for _, given := range p.values["status"] {
		for name := range strings.SplitSeq(given, ",") {
			status := tasks.Status(strings.TrimSpace(name))
			if !status.Valid() {
				p.fail("status", fmt.Sprintf("%q is not a status", name), "known: "+joinStatuses(tasks.Statuses()))
				continue
			}
			if !slices.Contains(all, status) {
				all = append(all, status)
			}
		}
	}
	return all
}

func joinStatuses(all []tasks.Status) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// ref is the task that the path and the owner parameter name. Without an owner it is an operator who asks.
func (p *params) ref(r *http.Request) tasks.Ref {
	return tasks.Ref{ID: r.PathValue("id"), Owner: p.text("owner", tasks.MaxOwnerBytes)}
}

// check takes err among the faults, unless it is nil.
func (p *params) check(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}
