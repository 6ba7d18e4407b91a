package bridge_test

import (
	"testing"

	"offstage/internal/redistest"
)

var server *redistest.Server

func TestMain(m *testing.M) { redistest.Main(m, &server) }
