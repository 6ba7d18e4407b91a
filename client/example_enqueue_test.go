package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"offstage/client"
	"offstage/tasks"
)

// Hand in a task and wait for its end.
func ExampleClient_Enqueue() {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			reply(w, http.StatusCreated, aTask(tasks.Pending))
			return
		}
		reply(w, http.StatusOK, aTask(tasks.Completed))
	}))
	defer daemon.Close()

	c, err := client.New(daemon.URL, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	t, created, err := c.Enqueue(ctx, tasks.Spec{Type: "email", Owner: "o", Payload: map[string]string{"to": "a@example.org"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.ID, t.Status, created)

	t, err = c.Wait(ctx, tasks.Ref{ID: t.ID, Owner: t.Owner}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status)
	// Output:
	// default.01abc pending true
	// completed
}
