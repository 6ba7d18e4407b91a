package bridge

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// event reads an entry of a task's event stream. t is the task as it is now.
func event(t *tasks.Task, entry redis.XMessage) tasks.Event {
	f := func(name string) string { s, _ := entry.Values[name].(string); return s }
	seq, _, _ := strings.Cut(entry.ID, "-")
	e := tasks.Event{TaskID: t.ID, Owner: t.Owner, Kind: tasks.EventKind(f("k")), Type: f("ty"), At: tasks.AtMilli(integer(f("at")))}
	e.Seq, _ = strconv.ParseInt(seq, 10, 64)
	if f("er") != "" {
		e.Error = decode[tasks.Error](f("er"))
	}
	if f("n") != "" {
		e.Notice = *decode[tasks.Notice](f("n"))
	}
	switch e.Kind {
	case tasks.EventRunning:
		e.Payload = object("attempt", integer(f("a")), "worker", f("w"))
	case tasks.EventRetrying:
		e.Payload = object("due_at", tasks.AtMilli(integer(f("due"))))
	case tasks.EventProgress:
		e.Payload = json.RawMessage(`{"progress":` + f("p") + `}`)
	case tasks.EventCustom:
		e.Payload = rawJSON([]byte(f("p")))
	case tasks.EventCompleted, tasks.EventFailed, tasks.EventCancelled:
		if t.Status.Terminal() && e.At.Equal(t.CompletedAt.Time) {
			e.Result = t.Result // stored once, on the task; an earlier run's is gone with its rerun
		}
	}
	return e
}

// object makes a small JSON object of names and values.
func object(pairs ...any) json.RawMessage {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, _ := json.Marshal(m) // strings, numbers and times: cannot fail
	return b
}
