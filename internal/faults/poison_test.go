package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"offstage/client"
	"offstage/internal/faults"
	"offstage/tasks"
)

// TestCheck24 is check 24: a task that kills its daemon each time. It ends as orphaned, others go on, and so do the
// daemons.
func TestCheck24_Poison(t *testing.T) {
	t.Parallel()
	checkPoison(t, 2)
}

func checkPoison(t *testing.T, interruptions int) {
	t.Helper()
	r := rig(t, faults.RigConfig{Daemons: 2, Env: []string{"OFFSTAGE_TASK_MAX_INTERRUPTIONS=" + strconv.Itoa(interruptions)}})
	began := time.Now()
	poison := r.Enqueue("poison", faults.Work{Murder: true, For: time.Minute}, faults.Job{Ends: failed()}, 0)
	// The others come later, and so share fewer crashes with it than they may.
	until(t, "the first daemon is dead", 20*time.Second, func() bool { return !r.Daemons[0].Running() || !r.Daemons[1].Running() })
	stop := keepUp(t, r)
	for i := 0; time.Since(began) < time.Duration(interruptions)*8*time.Second; i++ {
		r.Enqueue(fmt.Sprintf("other-%d", i), faults.Work{For: 50 * time.Millisecond}, faults.Job{}, 0)
		time.Sleep(300 * time.Millisecond)
	}
	// The poison, not the rig, kills the daemons: every process but the last of each was killed.
	killed := func(pid int) bool {
		return !slices.ContainsFunc(r.Daemons, func(d *faults.Daemon) bool { return d.PID() == pid })
	}
	report := r.CheckWith(faults.Checker{Bound: time.Duration(interruptions+1)*20*time.Second + 20*time.Second}, killed)
	took := time.Since(began)
	got, err := r.Daemons[1].Client.Get(t.Context(), tasks.Ref{ID: poison.ID})
	if err != nil || got.Error == nil || got.Error.Kind != tasks.KindOrphaned || got.Attempt != interruptions+1 {
		t.Errorf("poison: %+v, %v, want orphaned after %d attempts", got, err, interruptions+1)
	}
	stop()
	for _, d := range r.Daemons {
		if !d.Running() {
			t.Errorf("daemon %s does not run", d.Name)
		}
	}
	measured(t, "check=24 %v max_interruptions=%d orphaned_after=%s", report, interruptions, seconds(took))
}

// keepUp starts daemons that have died, as an init system would, until the returned func is called.
func keepUp(t *testing.T, r *faults.Rig) (stop func()) {
	t.Helper()
	return during(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			for _, d := range r.Daemons {
				if !d.Running() {
					_ = d.RestartUntilUp(ctx)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// checkBystanders is the other side of check 24: tasks that run beside the poison when it kills the daemon are not to
// blame, and complete.
func checkBystanders(t *testing.T) {
	t.Helper()
	r := rig(t, faults.RigConfig{Daemons: 2})
	r.Enqueue("poison", faults.Work{Murder: true, For: time.Minute}, faults.Job{Ends: failed()}, 0)
	for i := range 5 {
		r.Enqueue(fmt.Sprintf("other-%d", i), faults.Work{For: 300 * time.Millisecond}, faults.Job{}, 0)
	}
	stop := keepUp(t, r)
	report := r.Check(faults.Checker{Bound: 2 * time.Minute})
	stop()
	measured(t, "check=24 bystanders %v", report)
}

// TestCheck25 is check 25: a megabyte of bytes that are no text, and of terminal escapes, on stderr of a command that
// fails.
func TestCheck25_Garbage(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{})
	j := r.Enqueue("garbage", faults.Work{Garbage: true}, faults.Job{Ends: failed()}, 0)
	began := time.Now()
	report := r.Check(faults.Checker{Bound: 5 * time.Second})
	took := time.Since(began)
	got, err := r.Daemons[0].Client.Get(t.Context(), tasks.Ref{ID: j.ID})
	if err != nil || got.Error == nil {
		t.Fatalf("task: %+v, %v", got, err)
	}
	if msg := got.Error.Message; !strings.Contains(msg, "exit status 1") || len(msg) > 4096 || !readable(msg) {
		t.Errorf("error of %d bytes: %.200q", len(msg), msg)
	}
	if len(got.Output) > 100<<10 || !utf8.ValidString(got.Output) {
		t.Errorf("output of %d bytes, valid %v", len(got.Output), utf8.ValidString(got.Output))
	}
	events, err := r.Daemons[0].Client.Events(t.Context(), tasks.Ref{ID: j.ID}, 0, 500)
	if err != nil || len(events) == 0 {
		t.Fatalf("events: %v, %v", events, err)
	}
	if last := events[len(events)-1]; !readable(last.Output) || utf8.RuneCountInString(last.Output) > tasks.NoticeOutputChars {
		t.Errorf("the notice's output: %.200q", last.Output)
	}
	measured(t, "check=25 %v failed_after=%s error_bytes=%d output_bytes=%d", report, seconds(took), len(got.Error.Message), len(got.Output))
}

// readable reports whether text can be printed.
func readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' })
}

// TestCheck26 is check 26: ids in asynq's lists whose hash is gone. They are found, counted and cleaned, and the work
// goes on meanwhile.
func TestCheck26_Ghosts(t *testing.T) {
	t.Parallel()
	r := rig(t, faults.RigConfig{})
	d, ctx := r.Daemons[0], t.Context()
	const lists = "asynq:{default}:"
	for i := range 50 {
		id := fmt.Sprintf("ghost-%d", i)
		pipe := r.Redis.Admin.Pipeline()
		pipe.LPush(ctx, lists+"active", "a"+id)
		pipe.RPush(ctx, lists+"pending", "p"+id)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.EnqueueMany(20, "task", faults.Work{For: 20 * time.Millisecond})
	left := func() int64 {
		return r.Redis.Admin.LLen(ctx, lists+"active").Val() + r.Redis.Admin.LLen(ctx, lists+"pending").Val()
	}
	report := r.Check(faults.Checker{Once: true})
	took := until(t, "the ghosts are gone", 20*time.Second, func() bool { return left() == 0 })
	repairs := d.Metric(`offstage_repairs_total\{kind="\w+"\}`)
	if repairs < 50 {
		t.Errorf("%.0f repairs counted, want at least 50", repairs)
	}
	measured(t, "check=26 %v ghosts=100 cleaned_after=%s repairs=%.0f", report, seconds(took), repairs)
}

// TestCheck31 is check 31: many tasks fail in the same moment. Their next attempts are spread.
func TestCheck31_RetrySpread(t *testing.T) {
	t.Parallel()
	checkRetrySpread(t, 1000)
}

func checkRetrySpread(t *testing.T, n int) {
	t.Helper()
	const base = 10 * time.Minute // so long that nothing is tried again before the test has looked
	width := base * 17 / time.Duration(n)
	r := rig(t, faults.RigConfig{Args: []string{"--concurrency", "50"}})
	d := r.Daemons[0]
	for left := n; left > 0; left -= 500 {
		specs := make([]tasks.Spec, min(left, 500))
		for i := range specs {
			specs[i] = tasks.Spec{Type: "unknown", Owner: r.Owner, MaxRetries: new(1), Backoff: &tasks.Backoff{Base: tasks.Duration(base)}}
		}
		got, err := d.Client.EnqueueBatch(t.Context(), specs)
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
	}
	count := func() (n int) {
		q, err := d.Client.Queue(t.Context(), "default")
		if err == nil {
			n = int(q.Counts[tasks.Retrying])
		}
		return n
	}
	until(t, "all have failed once", time.Duration(n/100+10)*time.Second, func() bool { return count() >= n*95/100 })
	byTime := map[time.Duration]int{}
	total := 0
	for task, err := range d.Client.All(t.Context(), client.Filter{Owner: r.Owner, Statuses: []tasks.Status{tasks.Retrying}, PageSize: 200}) {
		if err != nil {
			t.Fatal(err)
		}
		failedAt := task.Errors[len(task.Errors)-1].At
		byTime[task.ScheduledAt.Sub(failedAt.Time)/width]++
		total++
	}
	worst, mean := 0, float64(total)*float64(width)/float64(base)
	for _, k := range byTime {
		worst = max(worst, k)
	}
	if float64(worst) > 3*mean || total < n/2 {
		t.Errorf("%d of %d retries within %v, the mean is %.1f", worst, total, width, mean)
	}
	measured(t, "check=31 failed=%d buckets_of=%v mean=%.1f worst=%d", total, width, mean, worst)
}
