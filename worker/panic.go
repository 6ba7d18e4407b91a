package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var errGoexit = errors.New("handler ended its goroutine (runtime.Goexit)")

// panicError is a handler's panic, with its stack.
type panicError struct {
	value any
	stack string
}

func newPanicError(v any) *panicError { return &panicError{v, string(debug.Stack())} }

// Error calls the value's own methods, which may panic in turn.
func (e *panicError) Error() (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("panic: a value of type %T that cannot be printed", e.value)
		}
	}()
	return fmt.Sprintf("panic: %v", e.value)
}
