package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Fault is one thing wrong with the configuration.
//
//nolint:errname // an entry of a report first, an error second
type Fault struct {
	Key    string // setting, like "worker.concurrency"; or the variable, flag or file when it belongs to no setting
	Source string // where the value came from, like "env OFFSTAGE_LISTEN"; empty when that is not known
	Reason string // what is wrong; never holds a secret
	Hint   string // the way out
}

func (f *Fault) Error() string {
	s := f.Key
	if f.Source != "" && f.Source != f.Key {
		s += " (" + f.Source + ")"
	}
	s += ": " + f.Reason
	if f.Hint != "" {
		s += "; " + f.Hint
	}
	return s
}

// Faults is everything wrong with a configuration, sorted by key. It is what [Load], [Explain] and [Config.Validate]
// return as their error; it is never empty then.
//
//nolint:errname // like Fault
type Faults []*Fault

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}

// err is f as an error, nil when there is no fault.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Source, b.Source))
	})
	return f
}

// valueError is what a parser finds wrong with a value. It holds no secret.
type valueError struct{ reason, hint string }

func (p *valueError) Error() string { return p.reason + "; " + p.hint }

// partsError is the faults inside a value of many parts; their keys start with the part, like "[1].scopes".
type partsError Faults

func (p partsError) Error() string { return Faults(p).Error() }

// faultsOf places what a parser found wrong with the value of key that came from source.
func faultsOf(key, source string, err error) Faults {
	if parts, ok := errors.AsType[partsError](err); ok {
		for _, f := range parts {
			f.Key, f.Source = key+f.Key, source
		}
		return Faults(parts)
	}
	fault := &Fault{Key: key, Source: source, Reason: err.Error()}
	if p, ok := errors.AsType[*valueError](err); ok {
		fault.Reason, fault.Hint = p.reason, p.hint
	}
	return Faults{fault}
}

// reworded is err with another hint.
func reworded(err error, hint string) error {
	if p, ok := errors.AsType[*valueError](err); ok {
		return &valueError{p.reason, hint}
	}
	return err
}

// nearest is the candidate that text was most likely meant to be, empty when none is close.
func nearest(text string, candidates []string) string {
	best, found := 1+max(2, len(text)/4), ""
	for _, c := range candidates {
		if d := distance(text, c); d < best {
			best, found = d, c
		}
	}
	return found
}

// distance is the number of letters to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
