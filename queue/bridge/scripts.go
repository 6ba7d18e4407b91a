package bridge

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

var (
	createScript    = load("create")
	takeScript      = load("take")
	adoptScript     = load("adopt")
	endScript       = load("end")
	cancelScript    = load("cancel")
	rerunScript     = load("rerun")
	deleteScript    = load("delete")
	purgeScript     = load("purge")
	forwardScript   = load("forward")
	writeScript     = load("write")
	beatScript      = load("beat")
	leaveScript     = load("leave")
	takeoverScript  = load("takeover")
	reconcileScript = load("reconcile")
)

// load reads a script and puts the shared part in front. A missing file is a mistake of the build.
func load(name string) *redis.Script {
	lib, err := scriptFiles.ReadFile("scripts/lib.lua")
	if err != nil {
		panic(err)
	}
	body, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return redis.NewScript(string(lib) + string(body))
}
