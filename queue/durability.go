package queue

import (
	"context"
	"fmt"
	"sync"

	"offstage/tasks"
)

// Durability is what Redis does with a write before it acknowledges it, and so what a crash can take away again.
type Durability string

// The durabilities, the strongest first. TestHealth_Durability holds each against a real server.
const (
	// DurabilityAlways: every write is on disk before its reply. Nothing acknowledged is lost.
	DurabilityAlways Durability = "always"
	// DurabilityEverySec: a crash of Redis or its machine may lose the last two seconds.
	DurabilityEverySec Durability = "everysec"
	// DurabilityUnknown: Redis does not tell. It meets no requirement.
	DurabilityUnknown Durability = "unknown"
	// DurabilityNone: Redis writes to disk when it likes, or never.
	DurabilityNone Durability = "none"
	// DurabilityEmbedded: Redis is in this process, and ends with it.
	DurabilityEmbedded Durability = "embedded"
)

// AtLeast reports whether d promises what least does. Everything is at least "", the requirement of nothing.
func (d Durability) AtLeast(least Durability) bool { return least == "" || d.rank() >= least.rank() }

func (d Durability) rank() int {
	switch d {
	case DurabilityAlways:
		return 3
	case DurabilityEverySec:
		return 2
	case DurabilityUnknown:
		return 1
	}
	return 0
}

// loses says what a crash takes.
func (d Durability) loses() string {
	switch d {
	case DurabilityAlways:
		return "what was accepted survives a crash of Redis and of its machine"
	case DurabilityEverySec:
		return "a crash of Redis or its machine may lose the last two seconds"
	case DurabilityUnknown:
		return "what a crash may lose cannot be told"
	}
	return "a crash may lose tasks that were accepted"
}

// DurabilityError says that Redis promises less than Options.RequireDurability.
type DurabilityError struct {
	Required, InForce Durability
	// Why is the setting of Redis that makes it so; in a cluster with the node that has it.
	Why string
}

// Error names the setting, what is in force, and the way out.
func (e *DurabilityError) Error() string {
	return fmt.Sprintf("redis.require_durability is %s, but %s is in force (%s): %s; %s",
		e.Required, e.InForce, e.Why, e.InForce.loses(), e.wayOut())
}

func (e *DurabilityError) wayOut() string {
	out := durabilityWayOut(e.Required)
	if e.InForce == DurabilityUnknown {
		out = configWayOut
	}
	return out + ", or lower redis.require_durability"
}

const configWayOut = "grant the user of redis.url +config|get +info"

// durabilityWayOut is how to get what is wanted. The order matters: a Redis that is started with a new "appendonly yes"
// looks for that file only, finds none, and begins empty; CONFIG SET writes it.
func durabilityWayOut(want Durability) string {
	if want != DurabilityAlways {
		want = DurabilityEverySec
	}
	return fmt.Sprintf(`CONFIG SET and write into redis.conf "appendonly yes", "appendfsync %s", "no-appendfsync-on-rewrite no" `+
		`(CONFIG SET first: a Redis that starts with a new appendonly begins empty)`, want)
}

// CheckDurability gives the durability in force; of a cluster's nodes the weakest counts. Errors: *DurabilityError when
// it is less than Options.RequireDurability, one that wraps tasks.ErrUnavailable when Redis does not answer.
func (q *Queue) CheckDurability(ctx context.Context) (Durability, error) {
	now := inForce{DurabilityEmbedded, "it ends with this process"}
	if !q.embedded {
		all, err := q.vitals(ctx)
		if err == nil {
			err = silent(all)
		}
		if err != nil {
			return DurabilityUnknown, fmt.Errorf("durability: %w: %w", tasks.ErrUnavailable, err)
		}
		now = weakest(all)
	}
	q.durable.note(now)
	if now.AtLeast(q.durable.required) {
		return now.Durability, nil
	}
	return now.Durability, &DurabilityError{q.durable.required, now.Durability, now.why}
}

// inForce is a durability and what makes it so.
type inForce struct {
	Durability
	why string
}

// durability of one node. A setting that stops the fsync for a while counts as having none: the task accepted in that
// while has no more than that.
func (v *vitals) durability() inForce {
	on, told := v.config["appendonly"]
	if !told {
		switch v.persistence["aof_enabled"] {
		case "0":
			on, told = "no", true
		case "1":
			return inForce{DurabilityUnknown, v.named("the user may not CONFIG GET appendfsync")}
		}
	}
	fsync := v.config["appendfsync"]
	switch {
	case !told:
		return inForce{DurabilityUnknown, v.named("Redis tells neither CONFIG GET nor INFO")}
	case on != "yes":
		return inForce{DurabilityNone, v.named("appendonly is " + on)}
	case fsync == "no":
		return inForce{DurabilityNone, v.named("appendfsync is no")}
	case v.config["no-appendfsync-on-rewrite"] == "yes":
		return inForce{DurabilityNone, v.named("no-appendfsync-on-rewrite is yes: nothing is synced during a rewrite")}
	case fsync != "always" && fsync != "everysec":
		return inForce{DurabilityUnknown, v.named("appendfsync is not told")}
	}
	return inForce{Durability(fsync), v.named("appendonly is yes, appendfsync is " + fsync)}
}

// weakest is the durability of all nodes together.
func weakest(all []*vitals) inForce {
	least := inForce{DurabilityUnknown, "there is no node"}
	for i, v := range all {
		if d := v.durability(); i == 0 || d.rank() < least.rank() {
			least = d
		}
	}
	return least
}

// durabilityWatch knows what is required and the best that was ever in force.
type durabilityWatch struct {
	required Durability

	mu   sync.Mutex
	best Durability
}

// note keeps the best, and gives it.
func (w *durabilityWatch) note(now inForce) Durability {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.best == "" || now.rank() > w.best.rank() {
		w.best = now.Durability
	}
	return w.best
}

// judge adds to h what there is to say about the durability in force.
func (w *durabilityWatch) judge(h *Health, now inForce) {
	h.Durability = now.Durability
	best := w.note(now)
	switch {
	case !now.AtLeast(w.required):
		h.refuse((&DurabilityError{w.required, now.Durability, now.why}).Error())
	case now.Durability == DurabilityEmbedded:
		h.Problems = append(h.Problems, "embedded mode: nothing survives this process")
	case now.rank() < best.rank():
		h.Problems = append(h.Problems, fmt.Sprintf("durability was %s and is %s now (%s): %s; %s",
			best, now.Durability, now.why, now.loses(), durabilityWayOut(best)))
	case now.Durability == DurabilityNone:
		h.Problems = append(h.Problems, fmt.Sprintf("durability is none (%s): %s; %s",
			now.why, now.loses(), durabilityWayOut(DurabilityEverySec)))
	}
}
