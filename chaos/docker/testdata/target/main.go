// Command target is a service for the tests of the Docker engine, and the helper program that they use.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"amnesia/chaos/docker"
)

func main() {
	docker.HelperMain()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		fmt.Println("terminated")
		if len(os.Args) > 1 && os.Args[1] == "deaf" { // it waits for the grace to pass
			if err := os.WriteFile("/tmp/terminated", []byte("yes"), 0o600); err != nil {
				panic(err)
			}
			return
		}
		os.Exit(0)
	}()
	if len(os.Args) > 1 && os.Args[1] == "probe" { // a health check without a shell
		resp, err := http.Get("http://127.0.0.1:8080/healthz")
		if err != nil || resp.StatusCode != http.StatusOK {
			os.Exit(1)
		}
		return
	}
	fmt.Println("up", os.Args[1:])
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.FormValue("path"), []byte(r.FormValue("text")), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	http.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		b, err := os.ReadFile(r.FormValue("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(b)
	})
	http.HandleFunc("/say", func(_ http.ResponseWriter, r *http.Request) { fmt.Fprintln(os.Stderr, r.FormValue("text")) })
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	http.HandleFunc("/eat", func(http.ResponseWriter, *http.Request) {
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i)
			}
			all = append(all, b)
			time.Sleep(time.Millisecond)
		}
	})
	if err := http.ListenAndServe(":8080", nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
