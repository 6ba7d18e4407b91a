package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogDriver sends what the Redis driver says of itself, by default on stderr, to log at debug level. It holds for the
// whole process, so it is for main to call: whatever matters comes back as an error as well.
func LogDriver(log *slog.Logger) { redis.SetLogger(driverLog{log}) }

type driverLog struct{ log *slog.Logger }

// Printf implements go-redis' logger.
func (l driverLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "Redis driver says", "text", fmt.Sprintf(format, v...))
}
