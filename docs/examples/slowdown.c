#include <hindmost/base.h>
#include <stdio.h>
int main(void) {
    puts(hm_version());
    return 0;
}
