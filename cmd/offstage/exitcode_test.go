package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"offstage/client"
	"offstage/tasks"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("boom"), 1},
		{tasks.ErrForbiddenParameter, 1},
		{client.ErrUnauthorized, 1},
		{usagef("no"), 2},
		{&tasks.InvalidError{Field: "type"}, 2},
		{tasks.ErrTooLarge, 2},
		{tasks.ErrReservedName, 2},
		{tasks.ErrNotFound, 3},
		{tasks.ErrNotOwner, 1}, // never reaches a client
		{&tasks.TerminatedError{Status: tasks.Completed}, 4},
		{tasks.ErrNotTerminated, 4},
		{tasks.ErrNoInbox, 4},
		{tasks.ErrDuplicateName, 4},
		{tasks.ErrParentCancelled, 4},
		{tasks.ErrIdempotencyMismatch, 4},
		{&exitError{code: 77}, 77},
		{client.ErrUnreachable, 7},
		{tasks.ErrUnavailable, 7},
		{fmt.Errorf("%w, after: %w", context.DeadlineExceeded, client.ErrUnreachable), 7},
		{errors.Join(errors.New("x"), tasks.ErrNotFound), 3},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
		if tt.err != nil {
			if got := exitCode(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
				t.Errorf("exitCode(wrapped %v) = %d, want %d", tt.err, got, tt.want)
			}
		}
	}
}

func TestCommandOutcome(t *testing.T) {
	t.Parallel()
	timedOut := failedExec(143)
	timedOut.Error.Kind = tasks.KindTimeout
	rejected := aTask(tasks.Failed)
	rejected.Error = &tasks.Error{Kind: tasks.KindRejected, Message: "exec is off"}
	cancelled := failedExec(143)
	cancelled.Status, cancelled.Error = tasks.Cancelled, nil
	allowed := failedExec(4)
	allowed.Status, allowed.Error = tasks.Completed, nil
	for _, tt := range []struct {
		name string
		task *tasks.Task
		want int
		text string
	}{
		{"Completed", aTask(tasks.Completed), 0, ""},
		{"CompletedWithACode", allowed, 4, ""},
		{"Failed", failedExec(3), 3, ""},
		{"NeverSeenToEnd", failedExec(-1), 5, "task default.01abc failed: exit status -1"},
		{"FailedWithCodeZero", failedExec(0), 5, "task default.01abc failed: exit status 0"},
		{"TimedOut", timedOut, 5, "task default.01abc failed (timeout): exit status 143"},
		{"Rejected", rejected, 5, "task default.01abc failed (rejected): exec is off"},
		{"Cancelled", cancelled, 6, "task default.01abc was cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := commandOutcome(tt.task)
			if got := exitCode(err); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			if err != nil && err.Error() != tt.text {
				t.Errorf("text %q, want %q", err, tt.text)
			}
		})
	}
}
