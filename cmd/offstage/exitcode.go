package main

import (
	"errors"
	"fmt"
	"strings"

	"offstage/client"
	"offstage/config"
	"offstage/tasks"
)

// The exit codes. `run` passes on the command's own code instead of exitTaskFailed.
const (
	exitOK            = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNotFound      = 3
	exitConflict      = 4
	exitTaskFailed    = 5
	exitTaskCancelled = 6
	exitUnreachable   = 7
	exitWaitOver      = 124
)

// exitError is an error that chooses its exit code itself. Without a message nothing is printed.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

// usageError is a command line that cannot be acted on.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// exitCode is the code for err. Unreachable comes before everything that it may have led to.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[config.Faults](err); ok {
		return exitUsage
	}
	for _, k := range []struct {
		code int
		errs []error
	}{
		{exitUnreachable, []error{client.ErrUnreachable, tasks.ErrUnavailable}},
		{exitNotFound, []error{tasks.ErrNotFound}},
		{exitConflict, []error{tasks.ErrTerminated, tasks.ErrNotTerminated, tasks.ErrNoInbox, tasks.ErrDuplicateName,
			tasks.ErrParentCancelled, tasks.ErrIdempotencyMismatch}},
		{exitUsage, []error{tasks.ErrInvalid, tasks.ErrTooLarge, tasks.ErrReservedName}},
	} {
		for _, sentinel := range k.errs {
			if errors.Is(err, sentinel) {
				return k.code
			}
		}
	}
	return exitFailed
}

// report says on stderr what went wrong, with the way out: one line, or one for each fault of a configuration.
func (a *app) report(err error, command string) {
	if err == nil || err.Error() == "" {
		return
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			a.talk("%s", oneLine(f.Error()))
		}
		return
	}
	text := plain(err)
	switch _, usage := errors.AsType[*usageError](err); {
	case usage:
		text += fmt.Sprintf(" (see '%s --help')", command)
	case errors.Is(err, client.ErrUnauthorized):
		text += " (set --token or OFFSTAGE_TOKEN)"
	}
	a.talk("%s", text)
}

// plain is an error on one line, to be put behind "offstage: ".
func plain(err error) string { return strings.TrimPrefix(oneLine(err.Error()), "offstage at ") }

// oneLine folds a text of several lines, such as all the faults of a task at once.
func oneLine(s string) string {
	s = strings.ReplaceAll(s, "\n\nDid you mean this?\n\t", "; did you mean: ")
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return printable(strings.Join(lines, "; "))
}
