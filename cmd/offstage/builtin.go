package main

import (
	"context"
	"errors"

	"offstage/tasks"
	"offstage/tasks/exec"
	"offstage/tasks/httpcall"
	"offstage/worker"
)

// The types that the daemon runs by itself.
const (
	typeExec = "exec"
	typeHTTP = "http"
)

var errExecOff = errors.New("this daemon does not run commands (turn on exec.enabled)")

// builtins holds what the built-in types may do.
type builtins struct {
	execOn bool
	exec   exec.Policy
	http   httpcall.Policy
	daemon *daemon
}

func (d *daemon) builtins() *builtins {
	p := exec.Policy{
		Allow: d.cfg.Exec.Allow, Env: d.cfg.Exec.Environ(d.app.environ), Shell: d.cfg.Exec.Shell,
		Grace: orNone(d.cfg.CancelGrace),
	}
	if p.Shell == "" {
		p.Shell = "-"
	}
	return &builtins{
		execOn: d.cfg.ExecEnabled(), exec: p, daemon: d,
		http: httpcall.Policy{AllowPrivate: d.cfg.HTTP.AllowPrivate, UserAgent: "offstage/" + buildVersion()},
	}
}

// check refuses a task of a built-in type before it is enqueued.
func (b *builtins) check(spec tasks.Spec) error {
	payload, err := spec.PayloadJSON()
	if err != nil {
		return err
	}
	switch spec.Type {
	case typeExec:
		if !b.execOn {
			return &tasks.InvalidError{Field: "type", Reason: `"exec" is off`, Hint: "turn on exec.enabled"}
		}
		return exec.Check(payload, b.exec)
	case typeHTTP:
		return httpcall.Check(payload, b.http)
	}
	return nil
}

// register gives a worker the built-in types.
func (b *builtins) register(w *worker.Worker) {
	w.HandleRaw(typeExec, func(ctx context.Context, job *worker.Job) (any, error) {
		if !b.execOn {
			return nil, tasks.Rejected(errExecOff)
		}
		r, err := exec.Run(ctx, job.Payload, job.Output(), b.exec)
		job.SetNotice(tasks.Notice{ExitCode: &r.ExitCode, Command: r.Command})
		return r, err
	})
	w.HandleRaw(typeHTTP, func(ctx context.Context, job *worker.Job) (any, error) {
		return httpcall.Run(ctx, job.Payload, job.Output(), b.http)
	})
}

// sweep ends what commands of a dead daemon left running on this host, before their tasks start again.
func (b *builtins) sweep() {
	if !b.execOn {
		return
	}
	b.daemon.caveat.Do(func() { b.daemon.log.Info("Commands may run", "limit", exec.Caveat) })
	killed, err := exec.Sweep()
	if killed > 0 || err != nil {
		b.daemon.log.Warn("Killed what commands of a dead daemon left running", "processes", killed, "err", err)
	}
}
