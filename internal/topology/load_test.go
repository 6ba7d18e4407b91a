package topology_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// load is producers that hand in tasks without a pause, each until it is accepted, and workers that run them, while
// things break.
type load struct {
	t      *testing.T
	q      *queue.Queue
	queues []string
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]string // task id by idempotency key
	at       []time.Time       // when, in order
	retried  int               // calls that failed
	odd      []string          // what must not happen
	runs     map[string]int    // bodies by task id
	running  map[string]string // the worker that runs a task
	overlaps int               // bodies of one task at once, of two workers
	ended    []time.Time       // when bodies came to their end, in order
}

// loadConfig says how heavy a load is.
type loadConfig struct {
	url       string
	options   queue.Options
	queues    []string
	producers int
	workers   int
	pace      time.Duration // between two tasks of a producer
}

// startLoad begins at once.
func startLoad(t *testing.T, c loadConfig) (*load, []*tally.Counters) {
	t.Helper()
	q, seen := open(t, c.url, c.options)
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, q: q, queues: c.queues, cancel: cancel, accepted: map[string]string{}, runs: map[string]int{}, running: map[string]string{}}
	all := []*tally.Counters{seen}
	for range c.workers {
		wq, wseen := open(t, c.url, c.options)
		all = append(all, wseen)
		start(t, wq, brisk(c.queues...), l.handle)
	}
	for i := range c.producers {
		l.wg.Go(func() { l.produce(ctx, i, c.pace) })
	}
	t.Cleanup(l.stop)
	return l, all
}

// stop ends the producers.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func (l *load) handle(w *worker.Worker) {
	w.HandleRaw("work", func(ctx context.Context, j *worker.Job) (any, error) {
		l.begin(w.ID(), j)
		defer l.end(w.ID(), j)
		select {
		case <-time.After(20 * time.Millisecond):
			return j.Attempt, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

func (l *load) begin(id string, j *worker.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[j.ID]++
	switch other, busy := l.running[j.ID]; {
	case busy && other == id:
		l.odd = append(l.odd, "two bodies of "+j.ID+" at once in one worker")
	case busy:
		l.overlaps++
	}
	l.running[j.ID] = id
}

func (l *load) end(id string, j *worker.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, time.Now())
	if l.running[j.ID] == id {
		delete(l.running, j.ID)
	}
}

func (l *load) produce(ctx context.Context, producer int, pace time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%d-%d", producer, i)
		l.submit(ctx, key, tasks.Spec{Type: "work", Owner: owner, Queue: l.queues[i%len(l.queues)], IdempotencyKey: key,
			Metadata: map[string]string{"key": key}})
		sleep(ctx, pace)
	}
}

// submit repeats a call with its idempotency key until it is accepted, as a careful producer does.
func (l *load) submit(ctx context.Context, key string, spec tasks.Spec) {
	for ctx.Err() == nil {
		call, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		task, _, err := l.q.Enqueue(call, spec)
		done()
		l.mu.Lock()
		switch {
		case err == nil:
			l.accepted[key], l.at = task.ID, append(l.at, time.Now())
		case errors.Is(err, tasks.ErrUnavailable):
			l.retried++
		default:
			l.odd = append(l.odd, fmt.Sprintf("Enqueue %s: %v", key, err))
		}
		l.mu.Unlock()
		if err == nil {
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// count gives how many tasks were accepted so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// flows waits until n more tasks were accepted.
func (l *load) flows(n int) {
	l.t.Helper()
	n += l.count()
	eventually(l.t, "tasks are accepted", func() bool { return l.count() >= n })
}

// recovery gives how long after since the first task was accepted and the first body ended, both counted from after on.
func (l *load) recovery(since, after time.Time) (accept, run time.Duration) {
	l.t.Helper()
	first := func(of func() []time.Time) time.Duration {
		var at time.Time
		eventually(l.t, "the load goes on", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			list := of()
			i, _ := slices.BinarySearchFunc(list, after, time.Time.Compare)
			if i < len(list) {
				at = list[i]
			}
			return i < len(list)
		})
		return at.Sub(since)
	}
	return first(func() []time.Time { return l.at }), first(func() []time.Time { return l.ended })
}

// outcome is what became of a load.
type outcome struct {
	accepted, missing, tasks, duplicated, unended int
	runs, more, mostRuns                          int // bodies; tasks with more than one; the most of one
	overlaps, retried                             int
	statuses                                      map[tasks.Status]int
	took                                          time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("accepted=%d missing=%d tasks=%d duplicated=%d unended=%d bodies=%d run_again=%d most_runs=%d overlaps=%d retried_calls=%d drained=%.1fs",
		o.accepted, o.missing, o.tasks, o.duplicated, o.unended, o.runs, o.more, o.mostRuns, o.overlaps, o.retried, o.took.Seconds())
}

// finish stops the producers, waits until everything that is left has ended, and counts.
func (l *load) finish() outcome {
	l.t.Helper()
	l.stop()
	began := time.Now()
	var found []*tasks.Task
	o := outcome{statuses: map[tasks.Status]int{}}
	for {
		var err error
		if found, err = l.list(); err == nil && !slices.ContainsFunc(found, unended) {
			break
		}
		if time.Since(began) > bound {
			l.t.Errorf("List: %v", err)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	o.took, o.tasks = time.Since(began), len(found)
	keys, known := map[string]int{}, map[string]bool{}
	for _, task := range found {
		keys[task.Metadata["key"]]++
		known[task.ID] = true
		o.statuses[task.Status]++
		if unended(task) {
			o.unended++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o.accepted, o.retried, o.overlaps = len(l.accepted), l.retried, l.overlaps
	for n := range maps.Values(keys) {
		o.duplicated += n - 1
	}
	for key, id := range l.accepted {
		if !known[id] {
			if o.missing++; o.missing > 5 {
				continue
			}
			l.t.Logf("accepted and missing: task %s, key %s, run %d times; the key has %d others", id, key, l.runs[id], keys[key])
		}
	}
	for _, n := range l.runs {
		o.runs += n
		o.mostRuns = max(o.mostRuns, n)
		if n > 1 {
			o.more++
		}
	}
	for _, what := range l.odd {
		l.t.Error(what)
	}
	l.check(found)
	return o
}

func unended(t *tasks.Task) bool { return !t.Status.Terminal() }

// list gives all tasks.
func (l *load) list() ([]*tasks.Task, error) {
	var all []*tasks.Task
	f := queue.Filter{Owner: owner, PageSize: 200}
	for {
		page, err := l.q.List(l.t.Context(), f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Tasks...)
		if f.PageToken = page.NextPageToken; f.PageToken == "" {
			return all, nil
		}
	}
}

// check wants each task completed, with the events of one life.
func (l *load) check(found []*tasks.Task) {
	l.t.Helper()
	bad := 0
	for _, task := range found {
		err := eventsOf(l.t.Context(), l.q, task)
		if err == nil && task.Status != tasks.Completed {
			err = fmt.Errorf("%s after %v, want completed: attempt %d, interruptions %d, worker %s, error %+v", task.Status, bound,
				task.Attempt, task.Interruptions, task.Worker, task.Error)
		}
		if err != nil && bad < 10 {
			l.t.Errorf("task %s: %v", task.ID, err)
		}
		if err != nil {
			bad++
		}
	}
	if bad > 0 {
		l.t.Errorf("%s tasks did not end as they should", strconv.Itoa(bad))
	}
}
