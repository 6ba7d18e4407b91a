// Command email is a worker of its own with offstage as a library: it enqueues two mails for a typed handler, runs
// them, and prints how they ended.
//
//	go run ./examples/email redis://127.0.0.1:6379/0
//
// The mails go nowhere: the handler writes them to its output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"offstage/queue"
	"offstage/tasks"
	"offstage/worker"
)

// Email is the payload of type "email:send".
type Email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// Receipt is its result.
type Receipt struct {
	MessageID string `json:"message_id"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: email REDIS_URL")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "email:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, out io.Writer) error {
	q, err := queue.Open(ctx, url, queue.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	// A queue of its own: other workers of "default" would not know the type.
	w, err := worker.New(q, worker.Config{Queues: map[string]int{"mail": 1}, Concurrency: 2})
	if err != nil {
		return err
	}
	worker.Handle(w, "email:send", send)

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var ended error
	wg.Go(func() { ended = w.Run(ctx) })
	err = order(ctx, q, out)
	cancel() // drains the worker
	wg.Wait()
	return errors.Join(err, ended)
}

// send is the handler. An address that can never work is not tried again.
func send(_ context.Context, job *worker.Job, mail Email) (Receipt, error) {
	if !strings.Contains(mail.To, "@") {
		return Receipt{}, worker.Permanent(fmt.Errorf("%q is not an address", mail.To))
	}
	fmt.Fprintf(job.Output(), "to %s: %s\n", mail.To, mail.Subject)
	if err := job.Progress(0.5); err != nil {
		return Receipt{}, err
	}
	return Receipt{MessageID: job.ID}, nil
}

// order enqueues two mails and waits for them.
func order(ctx context.Context, q *queue.Queue, out io.Writer) error {
	for _, mail := range []Email{{"ada@example.org", "Hello"}, {"nobody", "Hello?"}} {
		task, _, err := q.Enqueue(ctx, tasks.Spec{
			Type: "email:send", Queue: "mail", Owner: "newsletter", Payload: mail,
			Timeout: new(10 * time.Second), MaxRetries: new(5),
		})
		if err != nil {
			return err
		}
		if task, err = q.Wait(ctx, tasks.Ref{ID: task.ID, Owner: task.Owner}, time.Minute); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s", mail.To, task.Status)
		if task.Error != nil {
			fmt.Fprintf(out, ": %s", task.Error.Message)
		}
		fmt.Fprintln(out)
	}
	return nil
}
