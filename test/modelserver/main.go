// Command modelserver serves a scripted language model; see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"pawl.dev/test/modelserver/modeltest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8089", "address at which to serve")
	repo := flag.String("repo", "", "new folder for the repository of SCRIPT, which is an archive, such as test/testdata/repos/go.txtar")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: modelserver [-addr HOST:PORT] [-repo DIR] SCRIPT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*addr, *repo, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(addr, repo string, args []string) error {
	if len(args) != 1 {
		return errors.New("give the path of one script; test/modelserver/README.md describes scripts")
	}
	script, err := modeltest.Load(args[0])
	if err != nil {
		return err
	}
	command := "run --model"
	if script.Coding != nil {
		command = "code --model"
	}
	end := ` "GOAL"`
	if script.Chat != nil {
		command, end = "chat --agent ID --model", ""
	}
	if repo != "" {
		if err := modeltest.WriteRepository(args[0], repo); err != nil {
			return err
		}
		command = fmt.Sprintf("code --workspace %q --model", repo)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("OPENAI_BASE_URL=http://%[1]s/v1 OPENAI_API_KEY=test pawl %[2]s openai:scripted%[3]s\n"+
		"ANTHROPIC_BASE_URL=http://%[1]s ANTHROPIC_API_KEY=test pawl %[2]s anthropic:scripted%[3]s\n", listener.Addr(), command, end)
	server := &http.Server{Handler: modeltest.New(script, slog.New(slog.NewTextHandler(os.Stderr, nil))), ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}
