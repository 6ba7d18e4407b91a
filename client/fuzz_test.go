package client_test

import (
	"net/http"
	"testing"

	"offstage/client"
	"offstage/tasks"
)

// FuzzAnswer holds that no answer of a server, whatever it is, makes a call panic or succeed with nothing.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", "1", []byte(`{"id":"default.01abc","status":"failed"}`))
	f.Add(200, "text/plain", "-9", []byte("\xff\x00"))
	f.Add(404, "application/problem+json", "", []byte(`{"code":"not_found","status":404}`))
	f.Add(409, "application/problem+json", "x", []byte(`{"code":"terminated","task_status":"failed","errors":[{},{"hint":"h"}]}`))
	f.Add(503, "application/json", "99999999999", []byte(`{"ready":false,"problems":["x"]}`))
	f.Add(302, "", "Mon, 02 Jan 2006 15:04:05 GMT", []byte(`null`))
	f.Fuzz(func(t *testing.T, status int, contentType, header string, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		c := offline(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header()["Content-Type"] = []string{contentType}
			for _, name := range []string{"Retry-After", "Offstage-Output-Offset", "Offstage-Output-Next", "Offstage-Output-Total"} {
				w.Header()[name] = []string{header}
			}
			w.Header()["Offstage-Task-Status"] = []string{"running"}
			w.WriteHeader(status)
			_, _ = w.Write(body)
			return nil
		})
		if task, err := c.Get(t.Context(), ref()); (task == nil) == (err == nil) || err != nil && err.Error() == "" {
			t.Errorf("Get = %v, %v", task, err)
		}
		if out, err := c.Output(t.Context(), ref(), client.OutputOptions{}); (out == nil) == (err == nil) {
			t.Errorf("Output = %v, %v", out, err)
		}
		if h, err := c.Ready(t.Context()); (h == nil) == (err == nil) {
			t.Errorf("Ready = %v, %v", h, err)
		}
		if res, err := c.EnqueueBatch(t.Context(), []tasks.Spec{{Type: "t", Owner: "o"}}); err == nil && (res[0].Task == nil) == (res[0].Err == nil) {
			t.Errorf("EnqueueBatch = %+v", res)
		}
	})
}
