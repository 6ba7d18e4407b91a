package topology_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"offstage/internal/tally"
	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// place is where the essentials run.
type place struct {
	q      *queue.Queue
	url    string
	seen   *tally.Counters
	queues []string
	plain  asynq.RedisConnOpt // for a program that knows nothing of offstage

	mu    sync.Mutex
	begun map[string]chan string   // ids of bodies of type hold, by owner
	hold  map[string]chan struct{} // closed to let them end
	runs  map[string]int           // bodies by task
}

// essentials does once what every user of a queue does, on queues that lie on all nodes, and wants no write refused:
// a key in a wrong slot would be.
func essentials(t *testing.T, url string, plain asynq.RedisConnOpt, queues []string) {
	t.Helper()
	q, seen := open(t, url, queue.Options{})
	p := &place{q: q, url: url, seen: seen, queues: queues, plain: plain, begun: map[string]chan string{},
		hold: map[string]chan struct{}{}, runs: map[string]int{}}
	began := time.Now()
	w, _ := start(t, q, brisk(queues...), p.handlers)
	for name, check := range map[string]func(*testing.T, *place){
		"Run": checkRun, "Batch": checkBatch, "Retry": checkRetry, "Cancel": checkCancel, "Delay": checkDelay,
		"Idempotency": checkIdempotency, "Names": checkNames, "List": checkList, "Adopt": checkAdopt,
	} {
		t.Run(name, func(t *testing.T) { check(t, p) })
	}
	t.Run("Pause", func(t *testing.T) { checkPause(t, p) }) // these keep others from being run
	t.Run("Inspector", func(t *testing.T) { checkInspector(t, p) })
	t.Run("Takeover", func(t *testing.T) { checkTakeover(t, p) })
	if n := seen.Sum("commit "); n != 0 {
		t.Errorf("%d writes were refused: %v", n, seen.All())
	}
	if n := seen.Sum("repaired ") + seen.Sum("stale "); n != 0 {
		t.Errorf("counted %v, want nothing to repair and nothing stale", seen.All())
	}
	if h, err := q.Health(t.Context()); err != nil || !h.Ready {
		t.Errorf("Health = %+v, %v", h, err)
	}
	if problems, err := w.Health(); err != nil || problems != nil {
		t.Errorf("worker: %v, %q", err, problems)
	}
	measured(t, "essentials queues=%d attempts=%d commit_failures=%d repairs=%d took=%.1fs", len(queues), seen.Get("started"),
		seen.Sum("commit "), seen.Sum("repaired "), time.Since(began).Seconds())
}

func (p *place) handlers(w *worker.Worker) {
	w.HandleRaw("echo", func(_ context.Context, j *worker.Job) (any, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.runs[j.ID]++
		return j.Payload, nil
	})
	w.HandleRaw("flaky", func(_ context.Context, j *worker.Job) (any, error) {
		if j.Attempt < 3 {
			return nil, tasks.RetryAfter(50*time.Millisecond, errors.New("not yet"))
		}
		return j.Attempt, nil
	})
	w.HandleRaw("broken", func(context.Context, *worker.Job) (any, error) { return nil, tasks.Permanent(errors.New("no")) })
	w.HandleRaw("hold", func(ctx context.Context, j *worker.Job) (any, error) {
		begun, hold := p.gate(j.Owner)
		begun <- j.ID
		select {
		case <-hold:
			return "let go", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

// gate gives what bodies of type hold of an owner use.
func (p *place) gate(owner string) (begun chan string, hold chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun[owner] == nil {
		p.begun[owner], p.hold[owner] = make(chan string, 100), make(chan struct{})
	}
	return p.begun[owner], p.hold[owner]
}

func checkRun(t *testing.T, p *place) {
	t.Helper()
	for _, name := range p.queues {
		id := enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name, Payload: name, Owner: "run"}).ID
		got := ends(t, p.q, id, tasks.Completed)
		if string(got.Result) != `"`+name+`"` || got.Queue != name || got.Attempt != 1 {
			t.Errorf("on %s: %+v", name, got)
		}
	}
}

func checkBatch(t *testing.T, p *place) {
	t.Helper()
	var specs []tasks.Spec
	for i := range 20 * len(p.queues) {
		specs = append(specs, tasks.Spec{Type: "echo", Queue: p.queues[i%len(p.queues)], Payload: i, Owner: "batch"})
	}
	specs[7].Type = "" // one that is refused
	results, err := p.q.EnqueueBatch(t.Context(), specs)
	if err != nil || len(results) != len(specs) {
		t.Fatalf("EnqueueBatch: %d results, %v", len(results), err)
	}
	for i, r := range results {
		switch {
		case i == 7:
			if !errors.Is(r.Err, tasks.ErrInvalid) {
				t.Errorf("the bad one: %+v, %v", r.Task, r.Err)
			}
		case r.Err != nil:
			t.Errorf("task %d on %s: %v", i, specs[i].Queue, r.Err)
		default:
			if got := ends(t, p.q, r.Task.ID, tasks.Completed); string(got.Result) != fmt.Sprint(i) || got.Queue != specs[i].Queue {
				t.Errorf("task %d: %+v", i, got)
			}
		}
	}
}

func checkRetry(t *testing.T, p *place) {
	t.Helper()
	for _, name := range p.queues {
		got := ends(t, p.q, enqueue(t, p.q, tasks.Spec{Type: "flaky", Queue: name}).ID, tasks.Completed)
		if got.Attempt != 3 || len(got.Errors) != 2 {
			t.Errorf("on %s: %+v", name, got)
		}
		got = ends(t, p.q, enqueue(t, p.q, tasks.Spec{Type: "broken", Queue: name}).ID, tasks.Failed)
		again, err := p.q.Retry(t.Context(), tasks.Ref{ID: got.ID, Owner: owner})
		if err != nil || again.Status.Terminal() && again.Attempt < 2 {
			t.Errorf("Retry on %s: %+v, %v", name, again, err)
		}
		eventually(t, "the second run ends", func() bool {
			got, err := p.q.Get(t.Context(), tasks.Ref{ID: got.ID})
			return err == nil && got.Status == tasks.Failed && got.Attempt == 2
		})
	}
}

func cancel(t *testing.T, p *place, id string, from tasks.Status) {
	t.Helper()
	changes, err := p.q.Cancel(t.Context(), tasks.Ref{ID: id}, queue.CancelRequest{By: "me", Reason: "enough"})
	if err != nil || len(changes) != 1 || changes[0].From != from {
		t.Errorf("Cancel of %s that is %s: %+v, %v", id, from, changes, err)
	}
	if got := ends(t, p.q, id, tasks.Cancelled); got.Cancel == nil || got.Cancel.Reason != "enough" {
		t.Errorf("cancelled: %+v", got)
	}
}

func checkCancel(t *testing.T, p *place) {
	t.Helper()
	begun, _ := p.gate("cancel")
	for _, name := range p.queues {
		cancel(t, p, enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name, Delay: time.Hour}).ID, tasks.Scheduled)
		id := enqueue(t, p.q, tasks.Spec{Type: "hold", Queue: name, Owner: "cancel"}).ID
		if got := <-begun; got != id {
			t.Fatalf("%s began, want %s", got, id)
		}
		cancel(t, p, id, tasks.Running)
	}
	running := p.seen.Get("attempt cancelled")
	if running < len(p.queues) {
		t.Errorf("%d attempts ended cancelled, want %d", running, len(p.queues))
	}
}

func checkDelay(t *testing.T, p *place) {
	t.Helper()
	for i, name := range p.queues {
		spec := tasks.Spec{Type: "echo", Queue: name, Delay: 300 * time.Millisecond}
		if i%2 == 1 {
			spec.Delay, spec.RunAt = 0, time.Now().Add(300*time.Millisecond)
		}
		task := enqueue(t, p.q, spec)
		got := ends(t, p.q, task.ID, tasks.Completed)
		if task.Status != tasks.Scheduled || got.StartedAt.Before(task.ScheduledAt.Time) {
			t.Errorf("on %s: due %v, started %v, status at first %s", name, task.ScheduledAt, got.StartedAt, task.Status)
		}
	}
}

func checkIdempotency(t *testing.T, p *place) {
	t.Helper()
	for _, name := range p.queues {
		spec := tasks.Spec{Type: "echo", Queue: name, Owner: "idem", IdempotencyKey: "the key", Payload: name}
		var wg sync.WaitGroup
		var created atomic.Int32
		ids := make([]string, 8)
		for i := range ids {
			wg.Go(func() {
				task, made, err := p.q.Enqueue(t.Context(), spec)
				if err != nil {
					t.Errorf("Enqueue: %v", err)
					return
				}
				if ids[i] = task.ID; made {
					created.Add(1)
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] || created.Load() != 1 {
				t.Fatalf("%d tasks were created, ids %v", created.Load(), ids)
			}
		}
		spec.Payload = "another"
		if _, _, err := p.q.Enqueue(t.Context(), spec); !errors.Is(err, tasks.ErrIdempotencyMismatch) {
			t.Errorf("Enqueue of another body: %v", err)
		}
		ends(t, p.q, ids[0], tasks.Completed)
	}
}

// checkNames: a name is the owner's, so its lock lies on another node than most of its tasks.
func checkNames(t *testing.T, p *place) {
	t.Helper()
	for round := range 4 {
		var wg sync.WaitGroup
		var won atomic.Int32
		var id atomic.Value
		name := fmt.Sprint("name ", round)
		for _, in := range p.queues {
			wg.Go(func() {
				task, _, err := p.q.Enqueue(t.Context(), tasks.Spec{Type: "echo", Queue: in, Owner: "names", Name: name, Delay: time.Hour})
				switch {
				case err == nil:
					won.Add(1)
					id.Store(task.ID)
				case !errors.Is(err, tasks.ErrDuplicateName):
					t.Errorf("Enqueue: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d tasks have the name, want 1", won.Load())
		}
		other := enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: p.queues[0], Owner: "names' friend", Name: name}).ID
		cancel(t, p, id.Load().(string), tasks.Scheduled)
		ends(t, p.q, enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: p.queues[round%len(p.queues)], Owner: "names", Name: name}).ID, tasks.Completed)
		ends(t, p.q, other, tasks.Completed)
	}
}

func checkList(t *testing.T, p *place) {
	t.Helper()
	want := map[string]bool{}
	for i := range 10 * len(p.queues) {
		want[enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: p.queues[i%len(p.queues)], Owner: "list", Delay: time.Hour}).ID] = true
	}
	f := queue.Filter{Owner: "list", PageSize: 7}
	got, last := map[string]bool{}, time.Time{}
	for {
		page, err := p.q.List(t.Context(), f)
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, task := range page.Tasks {
			if got[task.ID] || !last.IsZero() && task.CreatedAt.After(last) {
				t.Errorf("%s comes twice, or after an older one", task.ID)
			}
			got[task.ID], last = true, task.CreatedAt.Time
		}
		if f.PageToken = page.NextPageToken; f.PageToken == "" {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("List gave %d tasks, want %d", len(got), len(want))
	}
	infos, err := p.q.Queues(t.Context())
	known := map[string]bool{}
	for _, i := range infos {
		known[i.Name] = true
	}
	for _, name := range p.queues {
		if !known[name] {
			t.Errorf("queue %s is not listed: %v, %v", name, infos, err)
		}
	}
	if ws, err := p.q.Workers(t.Context()); err != nil || len(ws) == 0 {
		t.Errorf("Workers = %v, %v", ws, err)
	}
}

func checkPause(t *testing.T, p *place) {
	t.Helper()
	for _, name := range p.queues {
		if err := p.q.Pause(t.Context(), name); err != nil {
			t.Fatalf("Pause(%s): %v", name, err)
		}
	}
	var ids []string
	for _, name := range p.queues {
		ids = append(ids, enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name}).ID)
		cancel(t, p, enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name}).ID, tasks.Pending)
	}
	time.Sleep(300 * time.Millisecond)
	for i, name := range p.queues {
		if got, err := p.q.Get(t.Context(), tasks.Ref{ID: ids[i]}); err != nil || got.Status != tasks.Pending {
			t.Errorf("on a paused queue: %+v, %v", got, err)
		}
		if info, err := p.q.Queue(t.Context(), name); err != nil || !info.Paused || info.Counts[tasks.Pending] != 1 {
			t.Errorf("Queue(%s) = %+v, %v", name, info, err)
		}
		if err := p.q.Resume(t.Context(), name); err != nil {
			t.Fatalf("Resume(%s): %v", name, err)
		}
		ends(t, p.q, ids[i], tasks.Completed)
	}
}

// checkAdopt has a program that only knows asynq enqueue tasks.
func checkAdopt(t *testing.T, p *place) {
	t.Helper()
	producer := asynq.NewClient(p.plain)
	defer func() { _ = producer.Close() }()
	for _, name := range p.queues {
		info, err := producer.Enqueue(asynq.NewTaskWithHeaders("echo", []byte(`"plain"`), map[string]string{"offstage-owner": "plain"}),
			asynq.Queue(name))
		if err != nil {
			t.Fatal(err)
		}
		id := name + "." + info.ID
		reaches(t, p.q, id, tasks.Completed)
		if got := ends(t, p.q, id, tasks.Completed); got.Owner != "plain" || string(got.Result) != `"plain"` {
			t.Errorf("adopted on %s: %+v", name, got)
		}
	}
}

func checkInspector(t *testing.T, p *place) {
	t.Helper()
	inspector := asynq.NewInspector(p.q.AsynqConn())
	defer func() { _ = inspector.Close() }()
	for _, name := range p.queues {
		if err := inspector.PauseQueue(name); err != nil {
			t.Fatalf("PauseQueue(%s): %v", name, err)
		}
		archived := enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name}).ID
		later := enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name, Delay: time.Hour}).ID
		info, err := inspector.GetQueueInfo(name)
		if err != nil || info.Pending != 1 || !info.Paused {
			t.Errorf("GetQueueInfo(%s) = %+v, %v", name, info, err)
		}
		if got, err := inspector.ListPendingTasks(name); err != nil || len(got) != 1 || got[0].ID != archived {
			t.Errorf("ListPendingTasks(%s) = %v, %v", name, got, err)
		}
		if err := inspector.ArchiveTask(name, archived); err != nil {
			t.Errorf("ArchiveTask: %v", err)
		}
		ends(t, p.q, archived, tasks.Cancelled)
		if err := inspector.UnpauseQueue(name); err != nil {
			t.Fatal(err)
		}
		if err := inspector.RunTask(name, later); err != nil {
			t.Errorf("RunTask: %v", err)
		}
		ends(t, p.q, later, tasks.Completed)
		if err := inspector.DeleteTask(name, archived); err != nil {
			t.Errorf("DeleteTask: %v", err)
		}
		if _, err := p.q.Get(t.Context(), tasks.Ref{ID: archived}); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("a task that was deleted: %v", err)
		}
		operated(t, p, inspector, name)
	}
	if servers, err := inspector.Servers(); err != nil || len(servers) == 0 {
		t.Errorf("Servers = %v, %v", servers, err)
	}
}

// operated cancels a running task as asynq's tools do, and many that wait.
func operated(t *testing.T, p *place, inspector *asynq.Inspector, name string) {
	t.Helper()
	begun, _ := p.gate("operated")
	running := enqueue(t, p.q, tasks.Spec{Type: "hold", Queue: name, Owner: "operated"}).ID
	<-begun
	if err := inspector.CancelProcessing(running); err != nil {
		t.Errorf("CancelProcessing: %v", err)
	}
	ends(t, p.q, running, tasks.Cancelled)
	var ids []string
	for range 5 {
		ids = append(ids, enqueue(t, p.q, tasks.Spec{Type: "echo", Queue: name, Delay: time.Hour, Owner: "operated"}).ID)
	}
	if n, err := inspector.ArchiveAllScheduledTasks(name); err != nil || n < len(ids) {
		t.Errorf("ArchiveAllScheduledTasks = %d, %v", n, err)
	}
	for _, id := range ids {
		ends(t, p.q, id, tasks.Cancelled)
	}
}

// checkTakeover: a worker dies with a task on each queue; they start again elsewhere and spend no retry.
func checkTakeover(t *testing.T, p *place) {
	t.Helper()
	q, seen := open(t, p.url, queue.Options{})
	abort := make(chan struct{})
	cfg := brisk()
	cfg.Abort, cfg.Concurrency, cfg.Queues = abort, 2*len(p.queues), map[string]int{}
	cfg.CancelGrace = bound // its bodies say something in the end
	for _, name := range p.queues {
		cfg.Queues["dying-"+name] = 1
	}
	begun, hold := make(chan string, 100), make(chan struct{})
	deaf := func(w *worker.Worker) {
		w.HandleRaw("deaf", func(_ context.Context, j *worker.Job) (any, error) { begun <- j.ID; <-hold; return "old", nil })
	}
	_, stop := start(t, q, cfg, deaf)
	t.Cleanup(func() { // before the worker is waited for
		select {
		case <-hold:
		default:
			close(hold)
		}
	})
	var ids []string
	for name := range cfg.Queues {
		ids = append(ids, enqueue(t, p.q, tasks.Spec{Type: "deaf", Queue: name, MaxRetries: new(0)}).ID)
	}
	for range ids {
		<-begun
	}
	died := time.Now()
	close(abort)
	if err := stop(); err == nil {
		t.Error("Run of a worker that is killed says that all is well")
	}
	cfg.Abort = nil
	_, stop = start(t, q, cfg, func(w *worker.Worker) {
		w.HandleRaw("deaf", func(context.Context, *worker.Job) (any, error) { return "new", nil })
	})
	slowest := time.Duration(0)
	for _, id := range ids {
		got := ends(t, q, id, tasks.Completed)
		if string(got.Result) != `"new"` || got.Attempt != 2 || got.Interruptions != 1 {
			t.Errorf("taken over: %+v", got)
		}
		slowest = max(slowest, got.StartedAt.Sub(died))
	}
	close(hold)
	eventually(t, "the late ends are refused and counted", func() bool { return seen.Sum("stale task_completion") == len(ids) })
	if n := seen.Sum("commit "); n != 0 {
		t.Errorf("%d writes were refused: %v", n, seen.All())
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	measured(t, "takeover tasks=%d slowest=%.1fs lease=%v", len(ids), slowest.Seconds(), cfg.Lease)
}
