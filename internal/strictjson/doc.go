// Package strictjson reads JSON that came from outside and that others will read after us: a value passes only when
// every reader understands it the same way, and every fault is a *tasks.InvalidError that names its place. [Check] is
// the judge; [Object] and [Table] decode as well.
package strictjson
