// Package httpcall is the built-in task type "http": it calls a URL and records the answer.
//
// [Check] says whether a payload may run and [Run] runs it. A call goes to the address it names and nowhere else: no
// proxy from the environment, no redirects, and no address inside the operator's network unless that is allowed.
// [Guard] is what keeps that last promise, at the moment of connecting, for anybody who calls URLs given by others.
package httpcall
