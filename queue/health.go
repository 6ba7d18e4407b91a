package queue

import (
	"context"
	"fmt"
	"time"
)

// healthTimeout bounds [Queue.Health] whatever Redis does, so that a probe gets an answer within 3 s.
const healthTimeout = 2500 * time.Millisecond

// Health asks Redis whether it can do its work, each master of a cluster for itself. It answers within 3 s also when
// Redis hangs, and is one exchange of a few small commands, cheap enough for a probe each second. The error is always
// nil so far; what is wrong stands in the Health, with the way out.
//
// One of the commands writes: no other way tells for certain that writes are taken. INFO knows of a replica, of a disk
// error and of missing replicas each in its own words and a little late, and of memory only what is used; Redis refuses
// a write for each of these in one place, and there the probe asks. It is a key of 60 s.
func (q *Queue) Health(ctx context.Context) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	h := Health{Ready: true, Redis: "ok", Durability: DurabilityUnknown, Embedded: q.embedded}
	if q.embedded {
		q.embeddedHealth(ctx, &h)
	} else {
		q.redisHealth(ctx, &h)
	}
	if sha := q.watch.unknown.Load(); sha != nil {
		h.refuse(fmt.Sprintf("asynq sent a script that is not known (%s): its version is not the pinned one", *sha))
	}
	return h, nil
}

// embeddedHealth does no more than ping: the server in the process knows neither CONFIG nor most of INFO.
func (q *Queue) embeddedHealth(ctx context.Context, h *Health) {
	if err := q.Ping(ctx); err != nil {
		h.Redis = err.Error()
		h.refuse(err.Error())
		return
	}
	q.durable.judge(h, inForce{DurabilityEmbedded, "it ends with this process"})
}

func (q *Queue) redisHealth(ctx context.Context, h *Health) {
	all, err := q.vitals(ctx)
	if err != nil {
		f := explain(err, &vitals{})
		h.Redis = f.Finding
		h.refuse(f.sentence())
		return
	}
	for _, v := range all {
		if f := v.checkWrites(); f.Level == Fail {
			h.Redis = f.Finding
			h.refuse(f.sentence())
			continue
		}
		if f := v.checkMemory(); f.Level != OK {
			h.Problems = append(h.Problems, f.sentence())
		}
	}
	if silent(all) == nil {
		q.durable.judge(h, weakest(all))
	}
}

// refuse turns readiness off for a reason.
func (h *Health) refuse(why string) {
	h.Ready = false
	h.Problems = append(h.Problems, why)
}
