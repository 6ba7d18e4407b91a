package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"offstage/tasks"
)

// outcome is the end of a task as an error: nil when it completed.
func outcome(t *tasks.Task) error {
	switch t.Status {
	case tasks.Failed:
		return &exitError{exitTaskFailed, fmt.Sprintf("task %s failed%s", t.ID, failure(t))}
	case tasks.Cancelled:
		return &exitError{exitTaskCancelled, fmt.Sprintf("task %s was cancelled%s", t.ID, canceller(t))}
	}
	return nil
}

// commandOutcome is the end of a task that ran a command: its own exit code comes before the codes of the CLI.
func commandOutcome(t *tasks.Task) error {
	code, ok := commandExit(t)
	if ok && code != 0 && (t.Status == tasks.Completed || t.Error != nil && t.Error.Kind == tasks.KindError) {
		if t.Error == nil || strings.HasPrefix(t.Error.Message, "exit status ") {
			return &exitError{code: code} // it has said itself what was wrong
		}
		return &exitError{code, fmt.Sprintf("task %s failed%s", t.ID, failure(t))}
	}
	return outcome(t)
}

// commandExit is the exit code of the command that an exec task ran, as a shell would report it. False means that
// there is none: no command, or one whose end nobody saw.
func commandExit(t *tasks.Task) (int, bool) {
	var r struct {
		ExitCode *int `json:"exit_code"`
	}
	if json.Unmarshal(t.Result, &r) != nil || r.ExitCode == nil || *r.ExitCode < 0 {
		return 0, false
	}
	return *r.ExitCode & 0xff, true
}

// failure is the text behind "failed".
func failure(t *tasks.Task) string {
	if t.Error == nil {
		return ""
	}
	if t.Error.Kind == tasks.KindError {
		return ": " + t.Error.Message
	}
	return " (" + string(t.Error.Kind) + "): " + t.Error.Message
}

// canceller is the text behind "cancelled".
func canceller(t *tasks.Task) string {
	if t.Cancel == nil {
		return ""
	}
	s := ""
	if t.Cancel.By != "" {
		s = " by " + t.Cancel.By
	}
	if t.Cancel.Reason != "" {
		s += ": " + t.Cancel.Reason
	}
	return s
}
