/* Each call of ZooKeeper's own C client: neighbour calls SERVER ROOT. */

#define THREADED
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#define DIRECTORIES 10 /* they are not all on one ensemble */
#define DEADLINE_S 60
#define TIMEOUT_MS 20000
#define LONG 512

struct event {
    int type;
    char path[LONG];
    int has_come;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void is(const char *what, int code, int expected) {
    if (code != expected) fail("%s: %s, not %s", what, zerror(code), zerror(expected));
}

static void same(const char *what, const char *found, const char *expected) {
    if (strcmp(found, expected)) fail("%s: %s, not %s", what, found, expected);
}

static void number_is(const char *what, long long found, long long expected) {
    if (found != expected) fail("%s: %lld, not %lld", what, found, expected);
}

/* The path, which is never freed: the program is short. */
static const char *below(const char *path, const char *format, ...) {
    char *made = malloc(LONG);
    int length = snprintf(made, LONG, "%s", path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made + length, LONG - length, format, arguments);
    va_end(arguments);
    return made;
}

static void on_event(zhandle_t *zk, int type, int state, const char *path, void *context) {
    struct event *event = context;
    if (event == NULL || type == ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&lock);
    event->type = type;
    snprintf(event->path, LONG, "%s", path);
    event->has_come++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_session(zhandle_t *zk, int type, int state, const char *path, void *context) {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct timespec deadline(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += DEADLINE_S;
    return end;
}

static zhandle_t *connected(const char *server) {
    struct timespec end = deadline();
    zhandle_t *zk = zookeeper_init(server, on_session, TIMEOUT_MS, NULL, NULL, 0);
    if (zk == NULL) fail("no handle");
    pthread_mutex_lock(&lock);
    while (zoo_state(zk) != ZOO_CONNECTED_STATE)
        if (pthread_cond_timedwait(&changed, &lock, &end)) fail("not connected in %d s", DEADLINE_S);
    pthread_mutex_unlock(&lock);
    return zk;
}

static void expect(const char *what, struct event *event, int type, const char *path) {
    struct timespec end = deadline();
    pthread_mutex_lock(&lock);
    while (!event->has_come)
        if (pthread_cond_timedwait(&changed, &lock, &end)) fail("%s: no event in %d s", what, DEADLINE_S);
    pthread_mutex_unlock(&lock);
    number_is(what, event->type, type);
    same(what, event->path, path);
    number_is(what, event->has_come, 1);
}

static int create(zhandle_t *zk, const char *path, const char *data, int flags) {
    return zoo_create(zk, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, flags, NULL, 0);
}

static void make(zhandle_t *zk, const char *path) { is(path, create(zk, path, "", 0), ZOK); }

static void data_is(zhandle_t *zk, const char *path, const char *expected, int version) {
    char data[LONG];
    int length = sizeof data - 1;
    struct Stat stat;
    is("get", zoo_get(zk, path, 0, data, &length, &stat), ZOK);
    data[length < 0 ? 0 : length] = 0;
    same("get", data, expected);
    number_is("its version", stat.version, version);
}

static void values(zhandle_t *zk, const char *path) {
    struct Stat stat;
    struct String_vector names;
    char data[8];
    int length = sizeof data;
    is("create", create(zk, path, "first", 0), ZOK);
    is("create again", create(zk, path, "", 0), ZNODEEXISTS);
    is("create without a parent", create(zk, below(path, "/no/child"), "", 0), ZNONODE);
    data_is(zk, path, "first", 0);
    is("set", zoo_set2(zk, path, "second", 6, 0, &stat), ZOK);
    number_is("its version", stat.version, 1);
    is("set an old version", zoo_set(zk, path, "third", 5, 0), ZBADVERSION);
    is("get nothing", zoo_get(zk, below(path, "/no"), 0, data, &length, NULL), ZNONODE);
    is("exists", zoo_exists(zk, path, 0, &stat), ZOK);
    number_is("its length", stat.dataLength, 6);
    is("exists not", zoo_exists(zk, below(path, "/no"), 0, &stat), ZNONODE);
    for (int each = 0; each < DIRECTORIES; each++) {
        make(zk, below(path, "/d%d", each));
        make(zk, below(path, "/d%d/child", each));
    }
    is("children", zoo_get_children2(zk, path, 0, &names, &stat), ZOK);
    number_is("children", names.count, DIRECTORIES);
    number_is("their number", stat.numChildren, DIRECTORIES);
    deallocate_String_vector(&names);
    is("delete a directory that has a child", zoo_delete(zk, below(path, "/d0"), -1), ZNOTEMPTY);
    is("delete another version", zoo_delete(zk, below(path, "/d0/child"), 7), ZBADVERSION);
    is("delete the child", zoo_delete(zk, below(path, "/d0/child"), 0), ZOK);
    is("delete the directory", zoo_delete(zk, below(path, "/d0"), -1), ZOK);
    is("delete it again", zoo_delete(zk, below(path, "/d0"), -1), ZNONODE);
}

static void kinds(zhandle_t *zk, const char *path) {
    char made[LONG];
    struct Stat stat;
    make(zk, path);
    for (int each = 0; each < 3; each++) {
        is("a sequence",
           zoo_create(zk, below(path, "/s-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, made, LONG), ZOK);
        same("a sequence", made, below(path, "/s-%010d", each));
    }
    is("an ephemeral", create(zk, below(path, "/e"), "", ZOO_EPHEMERAL), ZOK);
    is("its owner", zoo_exists(zk, below(path, "/e"), 0, &stat), ZOK);
    number_is("its owner", stat.ephemeralOwner, zoo_client_id(zk)->client_id);
    is("an ephemeral has no children", create(zk, below(path, "/e/child"), "", 0), ZNOCHILDRENFOREPHEMERALS);
    is("a container", create(zk, below(path, "/container"), "", ZOO_CONTAINER), ZOK);
    is("one with a time to live",
       zoo_create_ttl(zk, below(path, "/t-"), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL,
                      3600000, made, LONG), ZOK);
    same("one with a time to live", made, below(path, "/t-%010d", 5));
}

static void watches(zhandle_t *zk, const char *path) {
    struct event made = {0}, set = {0}, listed = {0}, gone = {0};
    struct String_vector names;
    struct Stat stat;
    char data[8];
    int length = sizeof data;
    is("watch nothing", zoo_wexists(zk, path, on_event, &made, &stat), ZNONODE);
    make(zk, path);
    expect("it was created", &made, ZOO_CREATED_EVENT, path);
    is("watch a value", zoo_wget(zk, path, on_event, &set, data, &length, &stat), ZOK);
    is("watch children", zoo_wget_children(zk, path, on_event, &listed, &names), ZOK);
    deallocate_String_vector(&names);
    is("set", zoo_set(zk, path, "x", 1, -1), ZOK);
    expect("it was changed", &set, ZOO_CHANGED_EVENT, path);
    make(zk, below(path, "/child"));
    expect("it has a child", &listed, ZOO_CHILD_EVENT, path);
    is("watch the child", zoo_wexists(zk, below(path, "/child"), on_event, &gone, &stat), ZOK);
    is("delete it", zoo_delete(zk, below(path, "/child"), -1), ZOK);
    expect("it was deleted", &gone, ZOO_DELETED_EVENT, below(path, "/child"));
}

/* Of directories on two ensembles nothing is done. */
static void transactions(zhandle_t *zk, const char *path) {
    zoo_op_t operations[4];
    zoo_op_result_t results[4];
    char made[LONG];
    struct Stat stat;
    int refused = 0;
    const char *a = below(path, "/a");
    make(zk, path);
    zoo_create_op_init(&operations[0], a, "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, LONG);
    zoo_set_op_init(&operations[1], a, "2", 1, 0, &stat);
    zoo_check_op_init(&operations[2], a, 1);
    is("a transaction", zoo_multi(zk, 3, operations, results), ZOK);
    same("its first result", made, a);
    number_is("its second result", stat.version, 1);
    zoo_create_op_init(&operations[0], below(path, "/c"), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_check_op_init(&operations[1], a, 7);
    is("a transaction that fails", zoo_multi(zk, 2, operations, results), ZBADVERSION);
    is("nothing of it was done", zoo_exists(zk, below(path, "/c"), 0, &stat), ZNONODE);
    for (int each = 0; each < DIRECTORIES; each++) make(zk, below(path, "/d%d", each));
    for (int each = 1; each < DIRECTORIES; each++) {
        const char *first = below(path, "/d0/with%d", each), *second = below(path, "/d%d/x", each);
        zoo_create_op_init(&operations[0], first, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        zoo_create_op_init(&operations[1], second, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        int code = zoo_multi(zk, 2, operations, results);
        if (code != ZOK) is("a transaction over ensembles", code, ZBADARGUMENTS), refused++;
        is("it was done", zoo_exists(zk, first, 0, &stat), code == ZOK ? ZOK : ZNONODE);
        is("it was done", zoo_exists(zk, second, 0, &stat), code == ZOK ? ZOK : ZNONODE);
    }
    if (!refused) fail("no transaction over ensembles was refused");
}

static void on_auth(int code, const void *data) {
    pthread_mutex_lock(&lock);
    *(int *)data = code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void identities(const char *server, zhandle_t *zk, const char *path) {
    char data[8];
    int length = sizeof data, code = 1;
    struct timespec end = deadline();
    struct ACL_vector acl;
    struct Stat stat;
    is("add_auth", zoo_add_auth(zk, "digest", "c:secret", 8, on_auth, &code), ZOK);
    pthread_mutex_lock(&lock);
    while (code == 1)
        if (pthread_cond_timedwait(&changed, &lock, &end)) fail("add_auth: no answer");
    pthread_mutex_unlock(&lock);
    is("add_auth", code, ZOK);
    is("create", zoo_create(zk, path, "mine", 4, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK);
    is("get its ACL", zoo_get_acl(zk, path, &acl, &stat), ZOK);
    same("its ACL", acl.data[0].id.scheme, "digest");
    deallocate_ACL_vector(&acl);
    zhandle_t *other = connected(server);
    is("another reads it", zoo_get(other, path, 0, data, &length, NULL), ZNOAUTH);
    is("set its ACL", zoo_set_acl(zk, path, 0, &ZOO_OPEN_ACL_UNSAFE), ZOK);
    data_is(other, path, "mine", 0);
    is("close", zookeeper_close(other), ZOK);
}

/* Ephemerals on all ensembles end with their session. */
static void sessions(const char *server, zhandle_t *zk, const char *path) {
    static struct event ended[DIRECTORIES];
    struct Stat stat;
    zhandle_t *other = connected(server);
    make(zk, path);
    for (int each = 0; each < DIRECTORIES; each++) {
        make(other, below(path, "/d%d", each));
        is("an ephemeral", create(other, below(path, "/d%d/e", each), "", ZOO_EPHEMERAL), ZOK);
        is("watch it", zoo_wexists(zk, below(path, "/d%d/e", each), on_event, &ended[each], &stat), ZOK);
        number_is("its owner", stat.ephemeralOwner, zoo_client_id(other)->client_id);
    }
    is("close", zookeeper_close(other), ZOK);
    for (int each = 0; each < DIRECTORIES; each++)
        expect("its session has ended", &ended[each], ZOO_DELETED_EVENT, below(path, "/d%d/e", each));
}

int main(int count, char **arguments) {
    if (count != 4 || strcmp(arguments[1], "calls")) fail("usage: neighbour calls SERVER ROOT");
    const char *server = arguments[2], *root = arguments[3];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zk = connected(server);
    make(zk, root);
    values(zk, below(root, "/values"));
    kinds(zk, below(root, "/kinds"));
    watches(zk, below(root, "/watches"));
    transactions(zk, below(root, "/transactions"));
    identities(server, zk, below(root, "/identities"));
    sessions(server, zk, below(root, "/sessions"));
    is("close", zookeeper_close(zk), ZOK);
    return 0;
}
