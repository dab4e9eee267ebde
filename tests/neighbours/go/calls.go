// Each call of go-zookeeper, and its lock.
package main

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	directories = 10 // they are not all on one ensemble
	holders     = 4
	rounds      = 10
)

var everybody = zk.WorldACL(zk.PermAll)

func calls(server, root string) {
	conn := connect(server)
	defer conn.Close()
	_, err := conn.Create(root, nil, 0, everybody)
	is("create the root", err, nil)
	values(conn, root+"/values")
	kinds(conn, root+"/kinds")
	watches(conn, root+"/watches")
	transactions(conn, root+"/transactions")
	identities(server, conn, root+"/identities")
	sessions(server, conn, root+"/sessions")
	locks(server, root+"/locks")
}

func values(conn *zk.Conn, path string) {
	made, err := conn.Create(path, []byte("first"), 0, everybody)
	is("create", err, nil)
	same("create", made, path)
	_, err = conn.Create(path, nil, 0, everybody)
	is("create again", err, zk.ErrNodeExists)
	_, err = conn.Create(path+"/no/child", nil, 0, everybody)
	is("create without a parent", err, zk.ErrNoNode)
	data, stat, err := conn.Get(path)
	is("get", err, nil)
	same("get", string(data), "first")
	same("its version", stat.Version, 0)
	stat, err = conn.Set(path, []byte("second"), 0)
	is("set", err, nil)
	same("its version", stat.Version, 1)
	_, err = conn.Set(path, []byte("third"), 0)
	is("set an old version", err, zk.ErrBadVersion)
	_, _, err = conn.Get(path + "/no")
	is("get nothing", err, zk.ErrNoNode)
	there, stat, err := conn.Exists(path)
	is("exists", err, nil)
	same("exists", []any{there, stat.DataLength}, []any{true, len("second")})
	there, _, err = conn.Exists(path + "/no")
	is("exists", err, nil)
	same("exists", there, false)
	synced, err := conn.Sync(path)
	is("sync", err, nil)
	same("sync", synced, path)
	for number := 0; number < directories; number++ {
		_, err = conn.Create(fmt.Sprintf("%s/d%d", path, number), nil, 0, everybody)
		is("create a directory", err, nil)
		_, err = conn.Create(fmt.Sprintf("%s/d%d/child", path, number), nil, 0, everybody)
		is("create its child", err, nil)
	}
	names, stat, err := conn.Children(path)
	is("children", err, nil)
	sort.Strings(names)
	same("children", names, "[d0 d1 d2 d3 d4 d5 d6 d7 d8 d9]")
	same("their number", stat.NumChildren, directories)
	is("delete a directory that has a child", conn.Delete(path+"/d0", -1), zk.ErrNotEmpty)
	is("delete another version", conn.Delete(path+"/d0/child", 7), zk.ErrBadVersion)
	is("delete the child", conn.Delete(path+"/d0/child", 0), nil)
	is("delete the directory", conn.Delete(path+"/d0", -1), nil)
	is("delete it again", conn.Delete(path+"/d0", -1), zk.ErrNoNode)
}

func kinds(conn *zk.Conn, path string) {
	_, err := conn.Create(path, nil, 0, everybody)
	is("create", err, nil)
	for number := 0; number < 3; number++ {
		made, err := conn.Create(path+"/s-", nil, zk.FlagSequence, everybody)
		is("a sequence", err, nil)
		same("a sequence", made, fmt.Sprintf("%s/s-%010d", path, number))
	}
	made, err := conn.Create(path+"/e", nil, zk.FlagEphemeral, everybody)
	is("an ephemeral", err, nil)
	_, stat, err := conn.Exists(made)
	is("its owner", err, nil)
	same("its owner", stat.EphemeralOwner, conn.SessionID())
	_, err = conn.Create(made+"/child", nil, 0, everybody)
	is("an ephemeral has no children", err, zk.ErrNoChildrenForEphemerals)
	made, err = conn.CreateProtectedEphemeralSequential(path+"/p-", nil, everybody)
	is("a protected one", err, nil)
	check(strings.HasPrefix(made, path+"/_c_") && strings.HasSuffix(made, "-p-0000000004"), "a protected one: %s", made)
	_, err = conn.CreateContainer(path+"/container", nil, zk.FlagContainer, everybody)
	is("a container", err, nil)
	made, err = conn.CreateTTL(path+"/t-", nil, zk.FlagPersistentSequentialWithTTL, everybody, time.Hour)
	is("one with a time to live", err, nil)
	same("one with a time to live", made, path+"/t-0000000006")
}

func watches(conn *zk.Conn, path string) {
	there, _, created, err := conn.ExistsW(path)
	is("watch nothing", err, nil)
	same("watch nothing", there, false)
	_, err = conn.Create(path, nil, 0, everybody)
	is("create", err, nil)
	expect("it was created", created, zk.EventNodeCreated, path)
	_, _, changed, err := conn.GetW(path)
	is("watch a value", err, nil)
	_, _, listed, err := conn.ChildrenW(path)
	is("watch children", err, nil)
	_, err = conn.Set(path, []byte("x"), -1)
	is("set", err, nil)
	expect("it was changed", changed, zk.EventNodeDataChanged, path)
	_, err = conn.Create(path+"/child", nil, 0, everybody)
	is("create a child", err, nil)
	expect("it has a child", listed, zk.EventNodeChildrenChanged, path)
	_, _, deleted, err := conn.GetW(path + "/child")
	is("watch a value", err, nil)
	_, _, left, err := conn.ChildrenW(path + "/child")
	is("watch children", err, nil)
	is("delete the child", conn.Delete(path+"/child", -1), nil)
	expect("it was deleted", deleted, zk.EventNodeDeleted, path+"/child")
	expect("it was deleted", left, zk.EventNodeDeleted, path+"/child")
}

func transactions(conn *zk.Conn, path string) {
	_, err := conn.Create(path, nil, 0, everybody)
	is("create", err, nil)
	results, err := conn.Multi(
		&zk.CreateRequest{Path: path + "/a", Data: []byte("1"), Acl: everybody},
		&zk.SetDataRequest{Path: path + "/a", Data: []byte("2"), Version: 0},
		&zk.CheckVersionRequest{Path: path + "/a", Version: 1},
		&zk.CreateRequest{Path: path + "/b", Acl: everybody},
		&zk.DeleteRequest{Path: path + "/b", Version: -1},
	)
	is("a transaction", err, nil)
	same("its results", []any{len(results), results[0].String, results[1].Stat.Version}, []any{5, path + "/a", 1})
	_, err = conn.Multi(
		&zk.CreateRequest{Path: path + "/c", Acl: everybody},
		&zk.CheckVersionRequest{Path: path + "/a", Version: 7},
	)
	is("a transaction that fails", err, zk.ErrBadVersion)
	there, _, err := conn.Exists(path + "/c")
	is("exists", err, nil)
	same("nothing of it was done", there, false)
	across(conn, path)
}

// across makes transactions of two directories. Those of directories on two ensembles are refused whole.
func across(conn *zk.Conn, path string) {
	refused := 0
	for number := 0; number < directories; number++ {
		_, err := conn.Create(fmt.Sprintf("%s/d%d", path, number), nil, 0, everybody)
		is("create a directory", err, nil)
	}
	for number := 1; number < directories; number++ {
		first, second := fmt.Sprintf("%s/d0/with%d", path, number), fmt.Sprintf("%s/d%d/x", path, number)
		_, err := conn.Multi(&zk.CreateRequest{Path: first, Acl: everybody}, &zk.CreateRequest{Path: second, Acl: everybody})
		if err != nil {
			is("a transaction over ensembles", err, zk.ErrBadArguments)
			refused++
		}
		for _, each := range []string{first, second} {
			there, _, lost := conn.Exists(each)
			is("exists", lost, nil)
			same("it was done", there, err == nil)
		}
	}
	check(refused > 0, "no transaction over ensembles was refused")
}

func identities(server string, conn *zk.Conn, path string) {
	is("addauth", conn.AddAuth("digest", []byte("go:secret")), nil)
	acl := zk.DigestACL(zk.PermAll, "go", "secret")
	_, err := conn.Create(path, []byte("mine"), 0, acl)
	is("create", err, nil)
	found, _, err := conn.GetACL(path)
	is("get its ACL", err, nil)
	same("its ACL", found, acl)
	other := connect(server)
	defer other.Close()
	_, _, err = other.Get(path)
	is("another reads it", err, zk.ErrNoAuth)
	_, err = conn.SetACL(path, append(acl, zk.WorldACL(zk.PermRead)...), 0)
	is("set its ACL", err, nil)
	data, _, err := other.Get(path)
	is("another reads it", err, nil)
	same("another reads it", string(data), "mine")
}

// sessions sees that ephemerals on all ensembles end with their session.
func sessions(server string, conn *zk.Conn, path string) {
	other := connect(server)
	_, err := conn.Create(path, nil, 0, everybody)
	is("create", err, nil)
	ended := map[string]<-chan zk.Event{}
	for number := 0; number < directories; number++ {
		directory := fmt.Sprintf("%s/d%d", path, number)
		_, err = other.Create(directory, nil, 0, everybody)
		is("create a directory", err, nil)
		_, err = other.Create(directory+"/e", nil, zk.FlagEphemeral, everybody)
		is("an ephemeral", err, nil)
		_, stat, events, err := conn.GetW(directory + "/e")
		is("watch it", err, nil)
		same("its owner", stat.EphemeralOwner, other.SessionID())
		ended[directory+"/e"] = events
	}
	other.Close()
	for each, events := range ended {
		expect("its session has ended", events, zk.EventNodeDeleted, each)
	}
}

// locks has several sessions count, each step with the lock held.
func locks(server, path string) {
	var all sync.WaitGroup
	var held, count atomic.Int32
	for number := 0; number < holders; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			conn := connect(server)
			defer conn.Close()
			lock := zk.NewLock(conn, path, everybody)
			for round := 0; round < rounds; round++ {
				is("lock", lock.Lock(), nil)
				same("how many hold it", held.Add(1), 1)
				_, _, err := conn.Get("/") // it takes a while
				is("get", err, nil)
				count.Add(1)
				held.Add(-1)
				is("unlock", lock.Unlock(), nil)
			}
		}()
	}
	all.Wait()
	same("how often it was held", count.Load(), holders*rounds)
}
