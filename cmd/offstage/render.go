package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"offstage/tasks"
)

// json writes v as an indented document to stdout.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// show writes v as JSON, or what table makes of it, as -o asks for.
func (a *app) show(v any, table func() error) error {
	if a.format == "json" {
		return a.json(v)
	}
	return table()
}

// line writes one line of data to stdout.
func (a *app) line(s string) error { return a.write(s + "\n") }

// write writes data to stdout.
func (a *app) write(s string) error {
	if _, err := io.WriteString(a.stdout, s); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// table writes rows in columns; the first row is the heading. Cells that are a status get its colour.
func (a *app) table(rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable(cell)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			cell = printable(cell)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			if i == len(row)-1 {
				pad = ""
			}
			b.WriteString(a.paint(cell) + pad)
		}
		b.WriteByte('\n')
	}
	return a.write(b.String())
}

// paint colours s if it is a status and stdout takes colours.
func (a *app) paint(s string) string {
	colours := map[tasks.Status]string{
		tasks.Running: "36", tasks.Retrying: "33", tasks.Completed: "32", tasks.Failed: "31", tasks.Cancelled: "35",
	}
	c, ok := colours[tasks.Status(s)]
	if !ok || !a.colour {
		return s
	}
	return "\x1b[" + c + "m" + s + "\x1b[0m"
}

// printable takes from s what would steer a terminal: control characters and the like show as U+FFFD.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// ago is the time since t, roughly: "12s", "5m", "3h", "9d".
func (a *app) ago(t tasks.Time) string {
	if t.IsZero() {
		return "-"
	}
	return rough(a.now().Sub(t.Time))
}

func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}
