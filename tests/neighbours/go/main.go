// A program in Go on go-zookeeper, at a server or a gateway. It checks what it gets, and ends with 1 if that is wrong.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

const wait = 2 * time.Minute // for what has to come; nothing is decided by it

func main() {
	if len(os.Args) == 4 && os.Args[1] == "calls" {
		calls(os.Args[2], os.Args[3])
	} else if len(os.Args) == 6 && os.Args[1] == "turns" {
		turns(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	} else {
		fail("calls HOST:PORT ROOT, or turns HOST:PORT DIRECTORY FILE NAME")
	}
}

func fail(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
	os.Exit(1)
}

// check ends the program unless what it says holds.
func check(holds bool, format string, values ...any) {
	if !holds {
		fail(format, values...)
	}
}

// same compares an answer with the expected one.
func same(what string, found, expected any) {
	check(fmt.Sprint(found) == fmt.Sprint(expected), "%s: %v, not %v", what, found, expected)
}

// is compares an error with the expected one, which may be nil.
func is(what string, found, expected error) {
	check(found == expected, "%s: error %v, not %v", what, found, expected)
}

// connect returns a connection that has a session.
func connect(server string) *zk.Conn {
	conn, events, err := zk.Connect([]string{server}, 3*wait/2, zk.WithLogInfo(false))
	is("connect", err, nil)
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	go func() { // the channel is of no use any more, and must not fill
		for range events {
		}
	}()
	return conn
}

// expect waits for an event.
func expect(what string, events <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case event := <-events:
		is(what, event.Err, nil)
		same(what, event.Type, kind)
		same(what, event.Path, path)
	case <-time.After(wait):
		fail("%s: no event", what)
	}
}
