// A lock that programs in several languages share: its znodes have Curator's names.
package main

import (
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// turns takes the lock again and again until its input ends, and writes each time into the file when it has it.
func turns(server, directory, file, name string) {
	conn := connect(server)
	defer conn.Close()
	session := conn.SessionID()
	log, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	is("open", err, nil)
	var isOver atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	for !isOver.Load() {
		lock := zk.NewLock(conn, directory, everybody)
		if lock.Lock() != nil {
			tidy(conn, directory)
			continue
		}
		_, err := log.WriteString(name + " in\n")
		is("write", err, nil)
		conn.Get(directory) // it takes a while; it may be lost
		_, err = log.WriteString(name + " out\n")
		is("write", err, nil)
		for err = lock.Unlock(); err != nil && err != zk.ErrNoNode; {
			err = lock.Unlock()
		}
		same("its session", conn.SessionID(), session)
	}
}

// tidy deletes what an attempt to lock has left: go-zookeeper leaves its znode when the connection ends.
func tidy(conn *zk.Conn, directory string) {
	for {
		names, _, err := conn.Children(directory)
		for _, each := range names {
			if err == nil && strings.HasPrefix(each, "_c_") {
				err = deleteOwn(conn, directory+"/"+each)
			}
		}
		if err == nil || err == zk.ErrNoNode {
			return
		}
	}
}

func deleteOwn(conn *zk.Conn, path string) error {
	there, stat, err := conn.Exists(path)
	if err == nil && there && stat.EphemeralOwner == conn.SessionID() {
		err = conn.Delete(path, -1)
	}
	if err == zk.ErrNoNode {
		return nil
	}
	return err
}
