package main

import (
	"fmt"
	"strings"
)

// card is a text of labelled lines. The values were made printable by those who add them, or are so by validation;
// colours are theirs to keep.
type card struct{ strings.Builder }

// add writes a labelled line, unless there is nothing to say.
func (k *card) add(label, value string) {
	if value != "" {
		_, _ = fmt.Fprintf(k, "%-12s %s\n", label, value)
	}
}

// title starts a block of lines.
func (k *card) title(s string) { _, _ = fmt.Fprintf(k, "\n%s\n", s) }

// text writes one line of a block.
func (k *card) text(s string) { _, _ = fmt.Fprintf(k, "  %s\n", s) }
