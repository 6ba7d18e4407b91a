package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"offstage/tasks"
)

// Level says how bad a [Finding] is.
type Level string

// The levels. Fail is what loses tasks or keeps them from running; Warn is what an operator should know of.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is one thing that [Doctor] looked at, for an operator to read.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"` // what was looked at, one or two words; several findings may share it
	Finding string `json:"finding"`
	WayOut  string `json:"way_out,omitempty"`
}

// sentence is what was found and the way out.
func (f Finding) sentence() string {
	if f.WayOut == "" {
		return f.Finding
	}
	return f.Finding + "; " + f.WayOut
}

// DoctorOptions is what a configuration asks of Redis. The zero value asks nothing.
type DoctorOptions struct {
	RequireDurability Durability
	// WaitReplicas is how many replicas must have a task before it is acknowledged.
	WaitReplicas int
}

// doctorTimeout bounds each of the checks, so that one that hangs leaves time for the others.
const doctorTimeout = 10 * time.Second

// Doctor examines the Redis that rawURL names, as [Open] reads it, and the queues in it. It needs no daemon, and finds
// its way also with a Redis that refuses writes. It changes nothing but keys of its own, which live for a minute at the
// most. An error wraps tasks.ErrUnavailable when no Redis answers, with a finding for it; the other is a URL that is none.
func Doctor(ctx context.Context, rawURL string, o DoctorOptions) ([]Finding, error) {
	client, err := dial(rawURL, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	q, err := New(client, Options{RequireDurability: o.RequireDurability})
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }()
	d := &doctor{q: q, want: o}
	err = d.examine(ctx)
	return d.found, err
}

// doctor is one examination.
type doctor struct {
	q     *Queue
	want  DoctorOptions
	found []Finding
}

func (d *doctor) examine(ctx context.Context) error {
	nodes, err := d.reach(ctx)
	if err != nil {
		f := explain(err, &vitals{})
		d.add(Fail, "redis", f.Finding, f.WayOut)
		if loginRefused(err) {
			return nil
		}
		return fmt.Errorf("redis: %w: %w", tasks.ErrUnavailable, err)
	}
	for _, n := range nodes {
		d.node(ctx, n)
	}
	d.try(ctx, "cluster", d.cluster)
	d.try(ctx, "queues", d.queues)
	return nil
}

// reach finds the nodes; the error is that none of them answers, or takes the login.
func (d *doctor) reach(ctx context.Context) ([]*node, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	nodes, err := d.q.nodes(ctx)
	for _, n := range nodes {
		if err = n.client.Ping(ctx).Err(); err == nil || isRedisError(err) && !loginRefused(err) {
			return nodes, nil
		}
	}
	return nodes, err
}

func (d *doctor) add(l Level, check, finding, wayOut string) {
	d.found = append(d.found, Finding{l, check, finding, wayOut})
}

// try runs a check; one that Redis keeps from its end is a finding as well.
func (d *doctor) try(ctx context.Context, name string, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	if err := check(ctx); err != nil {
		d.untold(name, err)
	}
}

// untold says that a check did not come to its end. Redis' own trouble is told once, where it takes writes.
func (d *doctor) untold(name string, err error) {
	if slices.ContainsFunc(d.found, func(f Finding) bool { return f.Check == "writes" && f.Level == Fail }) {
		d.add(Warn, name, "cannot be told: "+err.Error(), `see "writes"`)
		return
	}
	f := explain(err, &vitals{})
	d.add(Fail, name, "cannot be told: "+f.Finding, f.WayOut)
}
