package api_test

import (
	"testing"

	"offstage/api"
)

func TestServer_Guard(t *testing.T) {
	t.Parallel()
	local := serverOf(t, newFake(), api.Config{})
	named := serverOf(t, newFake(), api.Config{Hosts: []string{"Tasks.Example", "dash.example:8443"}})
	for _, tt := range []struct {
		name    string
		s       *api.Server
		method  string
		headers []string
		let     bool
	}{
		{"Loopback4", local, "POST", []string{"Host: 127.0.0.1:8484"}, true},
		{"Loopback4Far", local, "POST", []string{"Host: 127.9.9.9"}, true},
		{"Loopback6", local, "POST", []string{"Host: [::1]:8484"}, true},
		{"Loopback6NoPort", local, "POST", []string{"Host: [::1]"}, true},
		{"MappedLoopback", local, "POST", []string{"Host: [::ffff:127.0.0.1]:1"}, true},
		{"Localhost", local, "POST", []string{"Host: LocalHost.:8484"}, true},
		{"Rebound", local, "GET", []string{"Host: evil.example:8484"}, false},
		{"LooksLocal", local, "GET", []string{"Host: localhost.evil.example"}, false},
		{"LooksLikeIP", local, "GET", []string{"Host: 127.0.0.1.evil.example"}, false},
		{"OtherIP", local, "GET", []string{"Host: 10.0.0.1:8484"}, false},
		{"AnyIP", local, "GET", []string{"Host: 0.0.0.0:8484"}, false},
		{"NoHost", local, "GET", []string{"Host: "}, false},

		{"SameOrigin", local, "POST", []string{"Host: localhost:8484", "Origin: http://localhost:8484"}, true},
		{"OtherPort", local, "POST", []string{"Host: localhost:8484", "Origin: http://localhost:3000"}, false},
		{"OtherSite", local, "POST", []string{"Origin: https://evil.example"}, false},
		{"OtherSiteReads", local, "GET", []string{"Origin: https://evil.example"}, false},
		{"NullOrigin", local, "POST", []string{"Origin: null"}, false},
		{"File", local, "POST", []string{"Origin: file://127.0.0.1:8484"}, false},
		{"CrossSiteFetch", local, "POST", []string{"Sec-Fetch-Site: cross-site"}, false},
		{"SameSiteFetch", local, "DELETE", []string{"Sec-Fetch-Site: same-site"}, false},
		{"SameOriginFetch", local, "POST", []string{"Sec-Fetch-Site: same-origin"}, true},
		{"LinkFromElsewhere", local, "GET", []string{"Sec-Fetch-Site: cross-site"}, true},

		{"Configured", named, "POST", []string{"Host: tasks.example"}, true},
		{"ConfiguredOrigin", named, "POST", []string{"Host: tasks.example", "Origin: https://dash.example",
			"Sec-Fetch-Site: same-site"}, true},
		{"NotConfigured", named, "POST", []string{"Host: example"}, false},
		{"AnyHost", serverOf(t, newFake(), api.Config{AnyHost: true}), "POST", []string{"Host: evil.example",
			"Origin: http://x"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := call(t, tt.s, tt.method, "/livez", "", tt.headers...)
			if let := res.StatusCode != 403; let != tt.let {
				t.Fatalf("status = %d, let in %v, want %v", res.StatusCode, let, tt.let)
			}
			if !tt.let {
				wantProblem(t, res, 403, "foreign_host", "")
			}
		})
	}
}
