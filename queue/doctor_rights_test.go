package queue_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"offstage/internal/redistest"
	"offstage/queue"
	"offstage/queue/bridge"
	"offstage/tasks"
)

// recommended are the rights that doctor tells to grant.
var recommended = []string{"~asynq:*", "~offstage:*", "&asynq:*", "&offstage:*", "+@all", "-@dangerous", "+info", "+config|get", "+keys"}

// TestDoctor_RightsSuffice: a user with the rights that doctor recommends, and one with no more than those that it looks
// for, can do everything with a queue, and doctor finds nothing missing.
func TestDoctor_RightsSuffice(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]string{"Recommended": recommended, "Least": queue.LeastRights()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.AOF("always"))
			url := user(t, s, rules...)
			q, _ := open(t, url)
			serve(t, q, func(*bridge.Attempt) bridge.End { return bridge.End{Outcome: bridge.Completed} })
			id := enqueue(t, q, named("x")).ID
			reaches(t, q, id, tasks.Completed)
			beat(t, q, "host:1:a", time.Minute)
			operate(t, q, id)
			if h, err := q.Health(t.Context()); err != nil || !h.Ready || len(h.Problems) > 0 {
				t.Errorf("Health = %+v, %v", h, err)
			}
			if _, err := q.AsynqQueues(t.Context()); err != nil {
				t.Error(err)
			}
			finds(t, doctor(t, url, queue.DoctorOptions{}), queue.OK, "rights")
		})
	}
}

// operate does what an operator does, and deletes the task.
func operate(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	ctx, ref := t.Context(), tasks.Ref{ID: id}
	_, events := q.Events(ctx, ref, 0, 10)
	_, output := q.Output(ctx, ref, 0, 10, 0)
	_, workers := q.Workers(ctx)
	_, takeover := q.Store().Takeover(ctx, "default", time.Minute, 3)
	later := noop()
	later.Delay = time.Hour
	cancel(t, q, enqueue(t, q, later).ID)
	listAll(t, q, queue.Filter{Owner: "ada"})
	err := errors.Join(events, output, workers, takeover, q.Pause(ctx, "default"), q.Resume(ctx, "default"), q.Delete(ctx, ref),
		q.Store().Leave(ctx, "default", "host:1:a"))
	if err != nil {
		t.Error(err)
	}
}

// TestDoctor_RightsComplete: doctor looks for each command that a script of ours sends.
func TestDoctor_RightsComplete(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("bridge/scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	command := regexp.MustCompile(`call\('([A-Z]+)'`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(queue.LeastRights(), "+"+strings.ToLower(m[1])) {
				t.Errorf("%s sends %s: add it to neededRights", file, m[1])
			}
		}
	}
}

// TestDoctor_Rights: what is missing is named, whether or not the user may ask for it (ACL DRYRUN).
func TestDoctor_Rights(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string][]string{"DryRun": {"+acl"}, "Script": {"-acl"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			with := func(rules ...string) string {
				return user(t, s, append(append([]string{"+@all"}, rules...), ask...)...)
			}
			finds(t, doctor(t, with("~*", "&*"), queue.DoctorOptions{}), queue.OK, "rights", map[string]string{
				"DryRun": `user "ada" may do all`, "Script": "this user may do all"}[name])
			found := doctor(t, with("~*", "&*", "-zadd", "-xadd"), queue.DoctorOptions{})
			finds(t, found, queue.Fail, "rights", "ZADD asynq:*", "ZADD offstage:*", "XADD offstage:*", "ACL SETUSER")
			if strings.Contains(table(found), "HSET") {
				t.Errorf("HSET is allowed:\n%s", table(found))
			}
			finds(t, doctor(t, with("~*", "&*", "-eval", "-evalsha"), queue.DoctorOptions{}), queue.Fail, "rights", "EVAL")
			finds(t, doctor(t, with("~offstage:*", "&*"), queue.DoctorOptions{}), queue.Fail, "rights", "asynq:*")
			finds(t, doctor(t, with("~*", "&*", "-config"), queue.DoctorOptions{}), queue.Warn, "rights", "CONFIG GET", "know less")
			if keys := s.Client(t).Keys(t.Context(), "*doctor*").Val(); len(keys) > 0 {
				t.Errorf("doctor left %q", keys)
			}
		})
	}
	t.Run("Channels", func(t *testing.T) {
		t.Parallel()
		url := user(t, redistest.Start(t), "~*", "+@all")
		finds(t, doctor(t, url, queue.DoctorOptions{}), queue.Fail, "rights", "SUBSCRIBE asynq:cancel", "PUBLISH asynq:cancel")
	})
	t.Run("Wait", func(t *testing.T) {
		t.Parallel()
		url := user(t, redistest.Start(t), "~*", "&*", "+@all", "-wait")
		finds(t, doctor(t, url, queue.DoctorOptions{}), queue.OK, "rights")
		finds(t, doctor(t, url, queue.DoctorOptions{WaitReplicas: 1}), queue.Fail, "rights", "WAIT")
	})
}
